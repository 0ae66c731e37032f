#include "passes/legalise/decompositions.h"

#include <array>

#include "passes/provenance.h"

namespace rlxc::legalise {

ValueId Expansion::wide(ValueId x) {
  const DType t = g.dtype(x);
  return t == DType::F16 || t == DType::BF16 ? b.cast(x, DType::F32) : x;
}

ValueId Expansion::rounded(ValueId y, size_t scale) {
  if (!y.valid() || !has(scale)) return y;
  const ValueId zero = in(scale + 1);
  const ValueId codes = b.create(OpKind::Quantize, {y, in(scale), zero}, QuantAttrs{0, 0, g.dtype(zero), true});
  return has(scale + 2) ? b.create(OpKind::Dequantize, {codes, in(scale + 2), zero}, QuantAttrs{0, 0, DType::F32, true}) : codes;
}

ValueId Expansion::activation(ValueId x, const Epilogue& e) {
  if (!e.has) return x;
  Attrs a = default_attrs(e.op);
  if (auto* ab = std::get_if<AlphaBetaAttrs>(&a)) {
    ab->alpha = e.alpha;
    ab->beta = e.beta;
  }
  if (auto* c = std::get_if<ClampAttrs>(&a)) {
    c->min = e.alpha;
    c->max = e.beta;
  }
  return b.create(e.op, {x}, a);
}

ValueId Expansion::along(ValueId vector, int64_t axis, int rank) {
  if (g.rank(vector) != 1) return vector;
  std::vector<Dim> sizes(static_cast<size_t>(rank - axis), Dim(1));
  sizes[0] = dim(vector, 0);
  return b.reshape(vector, sizes);
}

ValueId Expansion::size(Dim d) {
  if (const auto v = b.dims().constant_value(d)) return b.constant(make_data(DType::I64, {}, std::vector<int64_t>{*v}));
  return b.create(OpKind::DimValue, {}, DimsAttrs{{d}, true});
}

ValueId Expansion::positions(Dim count) {
  return b.create(OpKind::Range, {b.scalar(DType::I64, 0), b.scalar(DType::I64, 1)}, DimsAttrs{{count}, false});
}

Decomposition decomposition(OpKind op) {
  static const auto table = [] {
    std::array<Decomposition, kOpCount> t{};
    for (auto family : {fused_decompositions(), norm_decompositions(), attention_decompositions(), linear_decompositions(),
                        elementwise_decompositions(), movement_decompositions(), dynamic_decompositions(),
                        resize_decompositions(), recurrent_decompositions()})
      for (const DecompositionEntry& e : family) t[static_cast<size_t>(e.op)] = e.expand;
    return t;
  }();
  return table[static_cast<size_t>(op)];
}

bool expand_node(Graph& g, NodeId n, Decomposition expand) {
  const size_t before = g.node_capacity();
  Expansion e(g, n);
  const std::vector<ValueId> results = expand(e);
  bool whole = results.size() == g.result_count(n);
  for (size_t r = 0; whole && r < results.size(); ++r)
    whole = results[r].valid() ? g.dtype(results[r]) == g.dtype(g.result(n, r)) && g.rank(results[r]) == g.rank(g.result(n, r))
                               : g.use_count(g.result(n, r)) == 0;
  OriginId origin;
  if (whole) {
    for (size_t i = before; i < g.node_capacity(); ++i) {
      const NodeId made(i);
      if (has_trait(g.op(made), kLeaf)) continue;
      if (!origin.valid()) {
        merge_origins(g, made, {&n, 1});
        origin = g.origin(made);
      }
      g.set_origin(made, origin);
    }
    for (size_t r = 0; r < results.size(); ++r)
      if (results[r].valid()) g.replace_all_uses(g.result(n, r), results[r]);
    g.erase(n);
  }
  for (size_t i = g.node_capacity(); i-- > before;) {  // erases unused nodes of the decomposition
    const NodeId made(i);
    bool used = false;
    for (size_t r = 0; r < g.result_count(made); ++r) used |= g.use_count(g.result(made, r)) > 0;
    if (!used) g.erase(made);
  }
  return whole;
}

int64_t expand_all(Graph& g, OpKind op, Decomposition expand) {
  int64_t count = 0;
  for (NodeId n : g.nodes()) count += g.op(n) == op && expand_node(g, n, expand);
  return count;
}

}  // namespace rlxc::legalise
