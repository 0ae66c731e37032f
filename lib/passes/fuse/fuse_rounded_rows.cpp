// Quantises the rows of an integer matmul where the matmul reads them. The input of a graph with Q/DQ pairs, and what a gather or
// a concatenation gives, have no producer that could round them, and would be read and written once more. The same holds for the
// states of a recurrence, also where these are reshaped or transposed between.
//   fused_q_matmul(region(x / scale, round, + zero, clamp, cast), w, zero, ...)  ->  fused_q_matmul(x, w, zero, _, scale, ...)
// A task of the kernel quantises its rows once and multiplies them by all columns, so rows alone keep the units busy: declines
// ("cost") if there are few of them and many columns. A grid quantises them for each tile of columns, which pays for small
// matmuls. Requires a weight, and a target with kernels of integers (QAttention). Runs after fuse_integer_results, which rounds
// values where they are computed. O(nodes).
#include <algorithm>

#include "ir/region.h"
#include "passes/fuse/cost_decision.h"
#include "passes/fuse/rounding.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/quantise/roundings.h"

namespace rlxc {
namespace {

using namespace match;

constexpr std::string_view kRoundedRows = "rounded_rows";
constexpr size_t kMostMoves = 4;
constexpr int64_t kLongestRow = 1 << 13;                                         // elements, of which a task holds some rows
constexpr double kRowsOfTask = 48, kColumnsOfTask = 64, kBytesOfTask = 1 << 18;  // of the kernels
constexpr double kReadsOfFloats = 1.25;  // of the time of a grid that reads codes as words

// The time of the matmul with the rounding, and of both apart. With unknown sizes there is one task, as for a single row.
fuse::CostDecision time_of(const Graph& g, NodeId n, NodeId rounding, const PassContext& context) {
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
    return {launch_time_ns(together, machine), launch_time_ns(apart, machine) + launch_time_ns(of_rounding, machine)};
  }
  const double columns = num_elements(g.type(g.result(n))) ? 1 : panels;  // unknown work grows with the columns
  return {launch_time_ns(together, machine, tasks) * columns,
          launch_time_ns(apart, machine, tasks * panels) +
              launch_time_ns(of_rounding, machine,
                             std::max(static_cast<double>(bytes(g, g.operand(rounding, 0))) / kBytesOfTask, 1.0))};
}

bool take_rows(Graph& g, NodeId n, PassContext& context) {
  const ValueId codes = g.operand(n, 0), w = g.operand(n, 1);
  ValueId rounded = codes;
  const std::vector<NodeId> moves = moves_above(g, &rounded, kMostMoves);
  const NodeId source = g.def(rounded);
  auto r = fuse::rounding_of(g, source);
  const auto k = g.module().dims.constant_value(g.dims(codes).back());
  if (!r || g.result_count(source) != 1 || !is_weight(g, w) || g.rank(w) != 2 || !k || *k > kLongestRow) return false;
  const auto refuse = [&](std::string_view reason, std::string detail) {
    return decline_end(context, g, kRoundedRows, n, reason, std::move(detail));
  };
  if (g.use_count(rounded) != 1) return refuse("multi_consumer", std::to_string(g.use_count(rounded)) + " readers of the rows");
  const ValueId zero = g.operand(n, 2);
  if (!fuse::same_zero(g, r->zero, zero)) return false;
  const auto time = time_of(g, n, source, context);
  if (!time.pays()) return refuse("cost", time.detail());
  RegionAttrs attrs{{{OpKind::QMatMul, DType::I32, {RegionStep::kNone, RegionStep::kNone, RegionStep::kNone}}}};
  if (g.op(n) == OpKind::FusedQMatMul) attrs = g.attrs<RegionAttrs>(n);
  const size_t count = std::max(g.operands(n).size(), kQuantOperands) + 1;
  if (count > context.target.region_max_inputs) return refuse("operand_limit", std::to_string(count) + " operands");
  Builder b(g, nullptr, n);
  r->x = moved_alike(b, moves, r->x);
  const std::vector<ValueId> operands = fuse::rounding_operands(g, n, *r, &attrs.steps);
  const NodeId whole = b.create_node(OpKind::FusedQMatMul, operands, std::move(attrs));
  if (!whole.valid()) return false;
  fuse::take_over_rounding(g, n, source, whole, kRoundedRows, context);
  if (!moves.empty() && g.alive(moves[0])) erase_dead(g, moves[0]);
  return true;
}

}  // namespace

PassResult fuse_rounded_rows(Module& m, PassContext& context) {
  int64_t found = 0;
  if (!context.target.native[static_cast<size_t>(OpKind::FusedQMatMul)] || !context.target.integer_fusions) return {};
  each_graph(m, [&](Graph& g) {
    for (NodeId n : g.nodes())
      if (g.op(n) == OpKind::FusedQMatMul || g.op(n) == OpKind::QMatMul)
        found += context.rewrite([&] { return take_rows(g, n, context); });
  });
  return {found > 0, {{"rounded_rows", found}}};
}

}  // namespace rlxc
