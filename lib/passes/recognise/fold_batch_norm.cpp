// Folds BatchNorm after a convolution into its weights and bias, computed at load time. The codes of dequantized weights stay,
// and their scales take the factors. Any other BatchNorm becomes a scale and a shift, whose factors are computed at load time.
#include "passes/match.h"
#include "passes/passes.h"

namespace rlxc {
namespace {

using namespace match;

// The convolution before the BatchNorm, if that is its sole user and its weights are known at load time; else invalid.
NodeId convolution(const Graph& g, NodeId bn, PassContext& ctx) {
  const ValueId x = g.operand(bn, 0);
  const NodeId conv = g.def(x);
  const bool transposed = g.op(conv) == OpKind::ConvTranspose;
  if ((g.op(conv) != OpKind::Conv && !transposed) || g.attrs<NormAttrs>(bn).axis != 1) return {};
  const auto decline = [&](std::string_view reason, std::string_view hint) {
    ctx.decisions.push_back(declined(g, "batch_norm", bn, reason, "after " + g.label(conv).line(), std::string(hint)));
    return NodeId();
  };
  if (transposed && g.attrs<ConvAttrs>(conv).groups != 1) return decline("groups", "");
  if (!g.has_one_use(x)) return decline("multi_consumer", "read the convolution only through the BatchNorm");
  for (size_t i = 1; i < 3; ++i)
    if (g.operand(conv, i).valid() && !is_weight(g, g.operand(conv, i))) return decline("runtime_weights", "");
  return conv;
}

// The value before a Reshape that keeps the channels as last axis, so that a matmul there can take scale and shift; else x.
ValueId before_reshape(const Graph& g, ValueId x, int64_t axis) {
  const NodeId n = defining_op(g, x, OpKind::Reshape);
  if (!n.valid() || !g.has_one_use(x) || axis + 1 != g.rank(x)) return x;
  const ValueId from = g.operand(n, 0);
  return g.rank(from) > 0 && g.dims(from).back() == g.dims(x).back() ? from : x;
}

// Weights times a factor [C] for each coordinate of the axis. A dequantized weight gets other scales, if it has one per tensor or
// per coordinate.
ValueId scaled_weights(Graph& g, Builder& b, ValueId w, ValueId factor, int64_t axis) {
  const NodeId n = defining_op(g, w, OpKind::Dequantize);
  const Dim channels = g.dims(factor)[0];
  if (n.valid()) {
    QuantAttrs a = g.attrs<QuantAttrs>(n);
    ValueId scale = g.operand(n, 1), zero = g.operand(n, 2);
    const bool single = num_elements(g.type(scale)) == 1;
    if (a.block == 0 && g.dtype(scale) == g.dtype(factor) && (single || a.axis == axis)) {
      a.axis = axis;
      if (single) scale = b.reshape(scale, {Dim(1)});
      if (zero.valid() && single) zero = b.expand(b.reshape(zero, {Dim(1)}), {channels});
      return b.create(OpKind::Dequantize, {g.operand(n, 0), b.mul(scale, factor), zero}, a);
    }
  }
  std::vector<Dim> along(g.dims(w).size(), Dim(1));
  along[static_cast<size_t>(axis)] = channels;
  return b.mul(w, b.reshape(factor, along));
}

// Folds into the preceding convolution (`*folded`), or rewrites as scale and shift.
bool fold_norm(Graph& g, NodeId n, bool* folded, PassContext& ctx) {
  bool known = true;
  for (size_t i = 1; i < 5; ++i)
    known = known && is_weight(g, g.operand(n, i)) && g.dtype(g.operand(n, i)) == g.dtype(g.result(n));
  if (!known) return false;
  const NodeId conv = convolution(g, n, ctx);
  const auto& a = g.attrs<NormAttrs>(n);
  const ValueId x = g.operand(n, 0), beta = g.operand(n, 2), mean = g.operand(n, 3);
  Builder b(g, nullptr, n);
  const DType t = g.dtype(x);
  const ValueId scale = b.mul(g.operand(n, 1), b.unary(OpKind::Rsqrt, b.add(g.operand(n, 4), b.scalar(t, a.eps))));
  ValueId y;
  if (conv.valid()) {
    const ValueId w = g.operand(conv, 1), bias = g.operand(conv, 2);
    const ValueId scaled = scaled_weights(g, b, w, scale, g.op(conv) == OpKind::Conv ? 0 : 1);
    const ValueId shifted = bias.valid() ? b.sub(bias, mean) : b.unary(OpKind::Neg, mean);
    y = b.create(g.op(conv), {g.operand(conv, 0), scaled, b.add(b.mul(shifted, scale), beta)}, g.attrs<ConvAttrs>(conv));
  } else {
    const ValueId from = before_reshape(g, x, a.axis);
    std::vector<Dim> along(g.dims(x).size() - static_cast<size_t>(a.axis), Dim(1));
    along[0] = g.dims(scale)[0];
    y = b.add(b.mul(from, b.reshape(scale, along)), b.reshape(b.sub(beta, b.mul(mean, scale)), along));
    if (from != x) y = b.reshape(y, {g.dims(x).begin(), g.dims(x).end()});
  }
  if (!y.valid()) return false;
  if (conv.valid()) {
    const NodeId members[] = {conv, n};
    ctx.decisions.push_back(fused(g, "batch_norm", n, members, 2 * bytes(g, x)));
  }
  *folded = conv.valid();
  replace(g, g.result(n), y);
  return true;
}

}  // namespace

PassResult fold_batch_norm(Module& m, PassContext& ctx) {
  int64_t folded = 0, scaled_only = 0;
  each_graph(m, [&](Graph& g) {
    for (NodeId n : g.nodes()) {
      if (g.op(n) != OpKind::BatchNormInference || !is_float(g, g.result(n))) continue;
      bool into_conv = false;
      if (ctx.rewrite([&] { return fold_norm(g, n, &into_conv, ctx); })) (into_conv ? folded : scaled_only) += 1;
    }
  });
  return {folded + scaled_only > 0, {{"folded", folded}, {"scale_shift", scaled_only}}};
}

}  // namespace rlxc
