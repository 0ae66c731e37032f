// Keeps weights of matmuls quantized if the model stores them as integers or 8-bit floats: matmul(x, dequantize(q, scale,
// zero_point)) becomes dequant_matmul(x, q, scale, zero_point), also through a Transpose or Cast, with scales per tensor, per
// axis, or per block of the contracted axis. A matmul that quantize_contractions runs on integers is left to it, because x and
// the weight are 8-bit integers with scales that it takes. Declines are Decisions ("quantized_weights"). O(nodes).
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/quantize/dequantized.h"

namespace rlxc {
namespace {

using namespace match;

constexpr std::string_view kPattern = "quantized_weights";

// A dequantized weight of rank 2; `swapped`: transposed before the matmul; `cast`: to another float.
struct QuantizedWeight {
  NodeId node;
  bool swapped = false, cast = false;
};

std::optional<QuantizedWeight> quantized_weight(const Graph& g, ValueId v) {
  QuantizedWeight c;
  for (int steps = 0; steps < 4; ++steps) {
    const NodeId n = g.def(v);
    switch (g.op(n)) {
      case OpKind::Dequantize: c.node = n; return is_weight(g, g.operand(n, 0)) ? std::optional(c) : std::nullopt;
      case OpKind::Transpose: c.swapped = !c.swapped; break;
      case OpKind::Cast:
        if (!is_float(g, g.operand(n, 0))) return std::nullopt;
        c.cast = true;
        break;
      default: return std::nullopt;
    }
    v = g.operand(n, 0);
  }
  return std::nullopt;
}

class WeightQuantizer {
 public:
  WeightQuantizer(Graph& g, PassContext& context) : g_(g), context_(context) {
    const auto native = [&](OpKind op) { return context.target.native.test(static_cast<size_t>(op)); };
    on_integers_ = native(OpKind::QMatMul) && native(OpKind::QConv);
  }

  bool visit(NodeId n) {
    const ValueId x = g_.operand(n, 0), w = g_.operand(n, 1);
    if (g_.rank(w) != 2) return false;
    const auto weight = quantized_weight(g_, w);
    if (!weight || runs_on_integers(n, *weight)) return false;
    const auto& m = g_.attrs<MatMulAttrs>(n);
    const NodeId d = weight->node;
    const ValueId q = g_.operand(d, 0), scale = g_.operand(d, 1),
                  zero = is_absent_or_zero(g_, g_.operand(d, 2)) ? ValueId() : g_.operand(d, 2);
    const bool trans_b = m.trans_b != weight->swapped;
    if (m.trans_a) return decline(context_, g_, kPattern, n, "layout", "the first operand is transposed");
    if (bits(g_.dtype(q)) > 8) return decline(context_, g_, kPattern, n, "wide_values", std::string(name(g_.dtype(q))));
    const auto& a = g_.attrs<QuantAttrs>(d);
    Builder b(g_, nullptr, n);
    DequantMatMulAttrs attrs{trans_b, 0, {}};
    std::vector<Dim> sizes(2, Dim(1));  // dims of the scale
    if (num_elements(g_.type(scale)) == 1) {
    } else if (a.block != 0) {
      if (a.axis != trans_b)
        return decline(context_, g_, kPattern, n, "scale_per_column_block", "blocks lie along the columns of the weight");
      attrs.block = a.block;
      sizes.assign(g_.dims(scale).begin(), g_.dims(scale).end());
    } else {
      sizes[static_cast<size_t>(a.axis)] = g_.dims(q)[static_cast<size_t>(a.axis)];
      if (a.axis == trans_b) attrs.block = 1;
    }
    const ValueId y =
        b.create(OpKind::DequantMatMul, {x, q, b.reshape(scale, sizes), zero.valid() ? b.reshape(zero, sizes) : zero}, attrs);
    if (!y.valid()) return false;
    const NodeId members[] = {d, n};
    context_.decisions.push_back(fused(g_, kPattern, n, members, bytes(g_, w) - bytes(g_, q)));
    replace_group(g_, members, g_.result(n), y);
    return true;
  }

 private:
  bool runs_on_integers(NodeId n, const QuantizedWeight& weight) const {
    const auto w = dequantized(g_, g_.result(weight.node), false);
    const int64_t columns = g_.attrs<MatMulAttrs>(n).trans_b != weight.swapped ? 0 : 1;
    if (!on_integers_ || weight.cast || !w || !(w->per_tensor || w->axis == columns)) return false;
    const auto x = dequantized_late(g_, g_.operand(n, 0), context_.target.fast_bytes);
    return x && x->per_tensor;
  }

  Graph& g_;
  PassContext& context_;
  bool on_integers_;
};

}  // namespace

PassResult keep_quantized_weights(Module& m, PassContext& context) {
  int64_t kept = 0;
  if (!context.target.native.test(static_cast<size_t>(OpKind::DequantMatMul))) return {};
  each_graph(m, [&](Graph& g) {
    WeightQuantizer keeper(g, context);
    for (NodeId n : g.nodes())
      if (g.op(n) == OpKind::MatMul && is_float(g, g.result(n))) kept += context.rewrite([&] { return keeper.visit(n); });
  });
  return {kept > 0, {{"weights", kept}}};
}

}  // namespace rlxc
