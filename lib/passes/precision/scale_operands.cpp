// Rounds run-time operands of matmuls to 8-bit floats with a scale per tensor or per block of the contracted axis
// (options.operand_cast; OCP Microscaling 1.0): s = max(|x|) / largest, x' = cast(cast(x / s -> f8) -> f32) * s. With
// power_of_two, s is rounded up to a power of two and stored as f8e8m0. A value is cast once for all matmuls that read it along
// the same axis. Each cast is a PrecisionNote; declines are Decisions ("scaled_operand"). O(nodes).
#include <limits>
#include <map>

#include "passes/match.h"
#include "passes/passes.h"
#include "support/half.h"

namespace rlxc {
namespace {

using namespace match;

class Scaler {
 public:
  Scaler(Graph& g, PassContext& context) : g_(g), context_(context), config_(*context.options.operand_cast) {}

  // Visits operand i of the matmul n; `axis` is its contracted axis.
  bool visit(NodeId n, size_t i, int axis) {
    const ValueId x = g_.operand(n, i);
    if (is_weight(g_, x) || is_scaled(x) || g_.dtype(x) == DType::F64) return false;
    if (axis < 0) axis += g_.rank(x);
    const auto [it, is_new] = made_.try_emplace({x.raw, axis});
    if (is_new) it->second = scaled(n, x, axis);
    if (!it->second.valid()) return false;
    g_.set_operand(n, i, it->second);
    return true;
  }

 private:
  // Returns whether this pass created the value.
  bool is_scaled(ValueId x) const {
    NodeId n = g_.def(x);
    if (g_.op(n) == OpKind::Cast && g_.op(g_.def(g_.operand(n, 0))) == OpKind::Mul) n = g_.def(g_.operand(n, 0));
    if (g_.op(n) == OpKind::Reshape) n = g_.def(g_.operand(n, 0));
    if (g_.op(n) != OpKind::Mul) return false;
    const NodeId cast = defining_op(g_, g_.operand(n, 0), OpKind::Cast);
    return cast.valid() && is_narrow(g_.dtype(g_.operand(cast, 0)));
  }

  ValueId scaled(NodeId n, ValueId x, int axis) {
    std::vector<Dim> sizes(g_.dims(x).begin(), g_.dims(x).end());
    const std::vector<Dim> whole = sizes;
    std::vector<int64_t> together;  // axes that share a scale
    const bool blocked = !config_.per_tensor && config_.block != 0;
    if (blocked) {
      const auto k = size_at(g_, x, axis);
      if (!k || *k % config_.block != 0) {
        decline(context_, g_, "scaled_operand", n, "block", "the summed axis is no multiple of " + std::to_string(config_.block));
        return {};
      }
      sizes[static_cast<size_t>(axis)] = Dim(*k / config_.block);
      sizes.insert(sizes.begin() + axis + 1, Dim(config_.block));
      together = {axis + 1};
    } else if (config_.per_tensor) {
      for (int a = 0; a < g_.rank(x); ++a) together.push_back(a);
    } else {
      together = {axis};
    }
    Builder b(g_, nullptr, n);
    const DType t = g_.dtype(x);
    const ValueId v = b.cast(b.reshape(x, sizes), DType::F32);
    const double largest = largest_finite(config_.to);
    const ValueId most = b.reduce(ReduceOp::Max, b.unary(OpKind::Abs, v), together, true);
    ValueId s;
    if (config_.power_of_two) {
      // Rounding 1.5 times a number to the nearest power of two gives the next power above it.
      s = b.create(OpKind::Cast, {b.mul(most, b.scalar(DType::F32, 1.5 / largest))}, CastAttrs{DType::F8E8M0, true});
      s = b.cast(s, DType::F32);
    } else {
      const ValueId least = b.scalar(DType::F32, std::numeric_limits<float>::min());
      s = b.create(OpKind::Max, {b.mul(most, b.scalar(DType::F32, 1 / largest)), least});
    }
    const ValueId quantized = b.create(OpKind::Cast, {b.div(v, s)}, CastAttrs{config_.to, true});
    const ValueId y = b.cast(b.reshape(b.mul(b.cast(quantized, DType::F32), s), whole), t);
    if (!y.valid()) return {};
    context_.precision.push_back({g_.label(g_.def(x)).bytes(), std::string(name(t)), std::string(name(config_.to)),
                                  "operand of " + g_.label(n).line() + ", one scale " +
                                      (blocked ? "for " + std::to_string(config_.block) + " terms" : "for all")});
    return y;
  }

  Graph& g_;
  PassContext& context_;
  const CastConfig& config_;
  std::map<std::pair<uint32_t, int>, ValueId> made_;
};

}  // namespace

PassResult scale_operands(Module& m, PassContext& context) {
  if (!context.options.operand_cast) return {};
  int64_t made = 0;
  each_graph(m, [&](Graph& g) {
    Scaler scaler(g, context);
    for (NodeId n : g.nodes()) {
      if (!is_float(g, g.result(n))) continue;
      if (g.op(n) == OpKind::DequantMatMul) made += context.rewrite([&] { return scaler.visit(n, 0, -1); });
      if (g.op(n) != OpKind::MatMul) continue;
      const auto& a = g.attrs<MatMulAttrs>(n);
      made += context.rewrite([&] { return scaler.visit(n, 0, a.trans_a ? -2 : -1); });
      made += context.rewrite([&] { return scaler.visit(n, 1, a.trans_b ? -1 : -2); });
    }
  });
  return {made > 0, {{"operands", made}}};
}

}  // namespace rlxc
