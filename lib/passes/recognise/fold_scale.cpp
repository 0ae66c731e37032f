// Folds a constant factor per column of a matmul, or per channel of a convolution (layer scale, an affine layer after a
// convolution), into weights and bias, computed at load time.
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/provenance.h"

namespace rlxc {
namespace {

using namespace match;

// (matmul + bias) * scale.
struct Scaled {
  NodeId matmul;  // MatMul or Conv
  NodeId sum;     // Add of a bias, if there is one
  ValueId bias, scale;
  bool channels = false;  // convolution: factors along axis 1
};

// Returns whether the weight may be scaled at load time: it is not quantized.
bool foldable(const Graph& g, ValueId v) { return is_weight(g, v) && g.op(g.def(v)) != OpKind::Dequantize; }

std::optional<Scaled> match_scaled(const Graph& g, NodeId mul) {
  for (size_t i = 0; i < 2; ++i) {
    const ValueId y = g.operand(mul, i), scale = g.operand(mul, 1 - i);
    if (!g.has_one_use(y) || !is_weight(g, scale) || !same_type(g, y, g.result(mul))) continue;
    Scaled s{g.def(y), {}, {}, scale};
    const bool conv = g.op(s.matmul) == OpKind::Conv;
    if (g.op(s.matmul) == OpKind::Add) {
      s.sum = s.matmul;
      for (size_t k = 0; k < 2; ++k)
        if (const NodeId m = defining_op(g, g.operand(s.sum, k), OpKind::MatMul); m.valid())
          s.matmul = m, s.bias = g.operand(s.sum, 1 - k);
      const ValueId p = g.result(s.matmul);
      if (!s.bias.valid() || !g.has_one_use(p) || !same_type(g, p, y) || !is_row(g, s.bias, y) || !foldable(g, s.bias)) continue;
    }
    if (!conv && g.op(s.matmul) != OpKind::MatMul) continue;
    if (!foldable(g, g.operand(s.matmul, 1)) || (!conv && g.rank(g.operand(s.matmul, 1)) != 2)) continue;
    if (conv && g.operand(s.matmul, 2).valid() && !foldable(g, g.operand(s.matmul, 2))) continue;
    s.channels = conv;
    if (conv ? per_channel(g, scale, y) : is_row(g, scale, y)) return s;
  }
  return std::nullopt;
}

// w * s along this axis of w.
ValueId scale_along(Builder& b, ValueId w, ValueId s, size_t axis) {
  std::vector<Dim> dims(b.graph().dims(w).size(), Dim(1));
  dims[axis] = b.graph().rank(s) == 0 ? Dim(1) : b.graph().dims(s)[0];
  return b.mul(w, b.reshape(s, dims));
}

bool fold_into_weight(Graph& g, NodeId mul, const Scaled& m, PassContext& ctx) {
  Builder b(g, nullptr, mul);
  const NodeId p = m.matmul;
  const ValueId y = g.result(mul), w = g.operand(p, 1);
  ValueId r;
  if (m.channels) {
    const ValueId s = b.reshape(m.scale, {g.dims(y)[1]}), bias = g.operand(p, 2);
    r = b.create(OpKind::Conv, {g.operand(p, 0), scale_along(b, w, s, 0), bias.valid() ? b.mul(bias, s) : ValueId()},
                 g.attrs<ConvAttrs>(p));
  } else {
    const auto a = g.attrs<MatMulAttrs>(p);
    const ValueId s = as_row(b, m.scale, y);
    r = b.matmul(g.operand(p, 0), scale_along(b, w, s, a.trans_b ? 0 : 1), a.trans_a, a.trans_b);
    if (!r.valid()) return false;
    if (m.bias.valid()) {
      merge_origins(g, g.def(r), {&p, 1});
      r = b.add(r, b.mul(as_row(b, m.bias, y), s));
    }
  }
  if (!r.valid()) return false;
  const NodeId members[] = {p, mul};
  ctx.decisions.push_back(fused(g, "scale", mul, members, 2 * bytes(g, y)));
  const NodeId ends[] = {m.sum.valid() ? m.sum : p, mul};
  replace_group(g, ends, y, r);
  return true;
}

}  // namespace

PassResult fold_scale(Module& m, PassContext& ctx) {
  int64_t folded = 0;
  each_graph(m, [&](Graph& g) {
    for (NodeId n : g.nodes()) {
      if (g.op(n) != OpKind::Mul || !is_float(g, g.result(n))) continue;
      if (const auto s = match_scaled(g, n)) folded += ctx.rewrite([&] { return fold_into_weight(g, n, *s, ctx); });
    }
  });
  return {folded > 0, {{"scale", folded}}};
}

}  // namespace rlxc
