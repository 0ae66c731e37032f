// Kernels support 4-bit types and 8-bit floats in casts only. Wraps other ops on these values in casts to wider types, which
// represent them exactly, and decomposes quantization to and from them. O(nodes).
#include <algorithm>

#include "analysis/views.h"
#include "ir/graphs.h"
#include "passes/legalise/decompositions.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/provenance.h"

namespace rlxc {
namespace {

using match::has_narrow_type;

DType wide(DType t) { return is_float(t) ? DType::F32 : is_signed(t) ? DType::I8 : DType::U8; }

bool widen(Graph& g, NodeId n) {
  Builder b(g, nullptr, n);
  b.set_node_name(g.node_name(n));
  std::vector<ValueId> operands(g.operands(n).begin(), g.operands(n).end());
  for (ValueId& v : operands)
    if (has_narrow_type(g, v)) v = b.cast(v, wide(g.dtype(v)));
  const NodeId made = b.create_node(g.op(n), operands, g.module().attrs[g.attr_id(n)]);
  if (!made.valid()) return false;
  merge_origins(g, made, {&n, 1});
  for (size_t r = 0; r < g.result_count(n); ++r)
    g.replace_all_uses(g.result(n, r), b.cast(g.result(made, r), g.dtype(g.result(n, r))));
  g.erase(n);
  return true;
}

bool rewrite(Graph& g, NodeId n) {
  switch (g.op(n)) {
    case OpKind::BitCast:
    case OpKind::DequantMatMul: return false;  // its kernel decodes the weight
    case OpKind::Quantize:
    case OpKind::Dequantize: return legalise::expand_node(g, n, legalise::decomposition(g.op(n)));
    case OpKind::Cast: {
      const DType from = g.dtype(g.operand(n, 0)), to = g.dtype(g.result(n));
      if (!is_narrow(from) || !is_narrow(to) || from == to) return false;
      g.set_operand(n, 0, Builder(g, nullptr, n).cast(g.operand(n, 0), is_float(from) || is_float(to) ? DType::F32 : DType::I8));
      return true;
    }
    default: return !view_of(g, n) && widen(g, n);
  }
}

}  // namespace

PassResult widen_narrow_types(Module& m, PassContext&) {
  int64_t widened = 0;
  for (GraphId id : graphs_in_use(m)) {
    Graph& g = m.graph(id);
    for (NodeId n : g.nodes()) {
      if (has_trait(g.op(n), kLeaf | kTerminator | kBody)) continue;
      bool narrow = std::ranges::any_of(g.operands(n), [&](ValueId v) { return has_narrow_type(g, v); });
      for (size_t r = 0; r < g.result_count(n); ++r) narrow |= has_narrow_type(g, g.result(n, r));
      if (narrow) widened += rewrite(g, n);
    }
  }
  return {widened > 0, {{"widened", widened}}};
}

}  // namespace rlxc
