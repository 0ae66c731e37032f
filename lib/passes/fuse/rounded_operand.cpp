#include "passes/fuse/rounded_operand.h"

#include <algorithm>

#include "analysis/channel_blocks.h"
#include "analysis/cost.h"
#include "ir/builder.h"
#include "ir/region.h"
#include "passes/fuse/region_step.h"
#include "passes/match.h"

namespace rlxc::fuse {
namespace {

using namespace match;

constexpr int64_t kLongestRow = 1 << 13;                                         // elements, of which a task holds some rows
constexpr double kRowsOfTask = 48, kColumnsOfTask = 64, kBytesOfTask = 1 << 18;  // of the kernels
constexpr double kReadsOfFloats = 1.25;  // of the time of a grid that reads codes as words

Verdict fits_operands(const Graph& g, NodeId n, const PassContext& context) {
  const size_t count = std::max(g.operands(n).size(), kQuantOperands) + 1;
  if (count > context.target.region_max_inputs) return {false, "operand_limit", std::to_string(count) + " operands"};
  return {true};
}

ValueId zero_of(const Graph& g, NodeId n) { return g.operands(n).size() > 2 ? g.operand(n, 2) : ValueId(); }

}  // namespace

Verdict can_round_rows(const Graph& g, NodeId n, const Rounding& r, const PassContext& context) {
  if ((g.op(n) != OpKind::FusedQMatMul && g.op(n) != OpKind::QMatMul) || rounds_operand(g, n)) return {};
  const ValueId w = g.operand(n, 1);
  const auto k = g.module().dims.constant_value(g.dims(g.operand(n, 0)).back());
  if (!is_weight(g, w) || g.rank(w) != 2 || !k || *k > kLongestRow || !same_zero(g, r.zero, zero_of(g, n))) return {};
  return fits_operands(g, n, context);
}

Verdict can_round_image(const Graph& g, NodeId n, const Rounding& r, const PassContext& context) {
  if ((g.op(n) != OpKind::FusedQConv && g.op(n) != OpKind::QConv) || rounds_operand(g, n)) return {};
  if (!same_zero(g, r.zero, zero_of(g, n))) return {};
  const ConvAttrs& conv = *conv_attrs(g, n);
  if (conv.groups > 1 && g.dims(g.operand(n, 1))[1] == Dim(1) && context.target.threads && blocked_conv_channels(g, n))
    return {false, "groups", "convolutions of single channels copy no image"};
  return fits_operands(g, n, context);
}

RowsTime time_of_rows(const Graph& g, NodeId n, NodeId rounding, const PassContext& context) {
  const auto size = [&](Dim d) { return static_cast<double>(g.module().dims.constant_value(d).value_or(1)); };
  const auto dims = g.dims(g.result(n));
  double rows = 1;
  for (const Dim d : dims.first(dims.size() - 1)) rows *= size(d);
  const double tasks = std::max(rows / kRowsOfTask, 1.0), panels = std::max(size(dims.back()) / kColumnsOfTask, 1.0);
  const Machine& machine = context.target.machine;
  Cost apart = node_cost(g, n), together = apart;
  const Cost of_rounding = node_cost(g, rounding);
  together.flops += of_rounding.flops;
  together.bytes_read += bytes(g, g.operand(rounding, 0)) - bytes(g, g.operand(n, 0));
  if (!context.target.threads) {
    together.flops = kReadsOfFloats * together.flops + of_rounding.flops * (panels - 1);
    return {launch_time_ns(together, machine), launch_time_ns(apart, machine), launch_time_ns(of_rounding, machine)};
  }
  const double columns = num_elements(g.type(g.result(n))) ? 1 : panels;  // unknown work grows with the columns
  const double parts = std::max(static_cast<double>(bytes(g, g.operand(rounding, 0))) / kBytesOfTask, 1.0);
  return {launch_time_ns(together, machine, tasks) * columns, launch_time_ns(apart, machine, tasks * panels),
          launch_time_ns(of_rounding, machine, parts)};
}

NodeId with_rounding(Graph& g, NodeId n, const Rounding& r) {
  const bool conv = g.op(n) == OpKind::FusedQConv || g.op(n) == OpKind::QConv;
  Builder b(g, nullptr, n);
  const bool fused = g.op(n) == OpKind::FusedQMatMul || g.op(n) == OpKind::FusedQConv;
  FusionAttrs a = fused ? g.attrs<FusionAttrs>(n) : FusionAttrs{{core_step(g, n)}};
  const std::vector<ValueId> operands = rounding_operands(g, n, r, &a.steps);
  return b.create_node(conv ? OpKind::FusedQConv : OpKind::FusedQMatMul, operands, std::move(a));
}

}  // namespace rlxc::fuse
