// Fuses an integer matmul whose steps read the sums of another one of the same value, as gate and up projection of a quantized
// SwiGLU: the weights lie side by side, and the kernel has both sums at once.
//   fused_q_matmul(x, w, q_matmul(x, u), ..)  ->  fused_q_matmul(x, [w u], ..) with two sums
// Runs after the steps are fused. Declined ("integer_gate") for weights of other types or sizes, and beyond the budget of packed
// weights. For targets with kernels of integers (QAttention). O(nodes).
#include "ir/region.h"
#include "passes/match.h"
#include "passes/packed_weights.h"
#include "passes/passes.h"
#include "passes/provenance.h"

namespace rlxc {
namespace {

using namespace match;

constexpr std::string_view kIntegerGate = "integer_gate";

class Gates {
 public:
  Gates(Graph& g, PassContext& context) : g_(g), context_(context), room_(packed_room(g, context)) {}

  bool take(NodeId n) {
    const FusionAttrs& a = g_.attrs<FusionAttrs>(n);
    if (has_two_sums(a.steps) || !a.also.empty()) return false;
    for (size_t i = kQuantOperands; i < g_.operands(n).size(); ++i) {
      const NodeId gate = defining_op(g_, g_.operand(n, i), OpKind::QMatMul);
      if (gate.valid() && g_.operand(gate, 0) == g_.operand(n, 0) && g_.only_user(g_.result(gate)) == n) return fuse(n, gate, i);
    }
    return false;
  }

 private:
  ValueId operand(NodeId n, size_t i) const { return i < g_.operands(n).size() ? g_.operand(n, i) : ValueId(); }

  bool fuse(NodeId n, NodeId gate, size_t at) {
    const auto refuse = [&](std::string_view reason, std::string detail) {
      return decline_end(context_, g_, kIntegerGate, n, reason, std::move(detail));
    };
    const ValueId w = g_.operand(n, 1), u = g_.operand(gate, 1), x = g_.operand(n, 0);
    if (!is_weight(g_, w) || !is_weight(g_, u)) return refuse("runtime_weights", "the weights are computed in each run");
    const auto types_differ = [&](size_t i) {
      const ValueId a = operand(n, i), b = operand(gate, i);
      return a.valid() && b.valid() && g_.dtype(a) != g_.dtype(b);
    };
    if (w == x || g_.rank(w) != 2 || !same_type(g_, w, u) || types_differ(3) || !same_number(g_, operand(n, 2), operand(gate, 2)))
      return refuse("quantization_differs", "other types, sizes or zero points");
    const int64_t needed = bytes(g_, w) + bytes(g_, u);
    if (needed > room_) return refuse("packed_limit", std::to_string(needed) + " bytes of packed weights");
    Builder b(g_, nullptr, n);
    const size_t before = g_.node_capacity();
    std::vector<ValueId> operands{x, b.concat(std::vector{w, u}, 1), operand(n, 2), zero_points(b, n, gate)};
    for (size_t i = kQuantOperands; i < g_.operands(n).size(); ++i)
      if (i != at) operands.push_back(g_.operand(n, i));
    const ValueId y = b.create(OpKind::FusedQMatMul, operands, FusionAttrs{steps(n, at)});
    if (!y.valid()) return false;
    room_ -= needed;
    const NodeId members[] = {gate, n};
    context_.decisions.push_back(fused(g_, kIntegerGate, n, members, 2 * bytes(g_, g_.result(gate))));
    merge_origins_since(g_, before, members);
    replace_group(g_, members, g_.result(n), y);
    return true;
  }

  // The zero points of the columns of both weights; invalid if there are none.
  ValueId zero_points(Builder& b, NodeId n, NodeId gate) const {
    const ValueId first = operand(n, 3), second = operand(gate, 3);
    if (!first.valid() && !second.valid()) return {};
    if (same_number(g_, first, second)) return first;
    const Dim columns = g_.dims(g_.result(n)).back();
    const DType t = g_.dtype(first.valid() ? first : second);
    const auto row = [&](ValueId v) {
      if (!v.valid()) v = b.scalar(t, 0);
      v = b.reshape(v, {num_elements(g_.type(v)) == 1 ? Dim(1) : columns});
      return g_.dims(v)[0] == columns ? v : b.expand(v, {columns});
    };
    return b.concat(std::vector{row(first), row(second)}, 0);
  }

  // The steps of n, of which step 1 replaces the operand `at`.
  std::vector<RegionStep> steps(NodeId n, size_t at) const {
    std::vector<RegionStep> all = g_.attrs<FusionAttrs>(n).steps;
    for (RegionStep& s : all)
      for (uint16_t& arg : s.args) {
        if (arg == RegionStep::kNone) continue;
        const auto index = static_cast<size_t>(arg & ~RegionStep::kStep);
        if (arg & RegionStep::kStep) arg = static_cast<uint16_t>(index > 0 ? arg + 1 : arg);
        else if (index == at) arg = RegionStep::kStep | 1;
        else if (index > at) --arg;
      }
    all.insert(all.begin() + 1, all[0]);
    return all;
  }

  Graph& g_;
  PassContext& context_;
  int64_t room_;
};

}  // namespace

PassResult fuse_integer_gate(Module& m, PassContext& context) {
  int64_t found = 0;
  if (!context.target.integer_fusions) return {};
  each_graph(m, [&](Graph& g) {
    Gates gates(g, context);
    for (NodeId n : g.nodes())
      if (g.op(n) == OpKind::FusedQMatMul) found += context.rewrite([&] { return gates.take(n); });
  });
  return {found > 0, {{"integer_gate", found}}};
}

}  // namespace rlxc
