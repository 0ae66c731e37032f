// Quantizes the rows of an integer matmul where the matmul reads them. The input of a graph with Q/DQ pairs, and what a gather or
// a concatenation gives, have no producer that could round them, and would be read and written once more. The same holds for the
// states of a recurrence, also where these are reshaped or transposed between.
//   fused_q_matmul(region(x / scale, round, + zero, clamp, cast), w, zero, ...)  ->  fused_q_matmul(x, w, zero, _, scale, ...)
// A task of the kernel quantizes its rows once and multiplies them by all columns, so rows alone keep the units busy: declines
// ("cost") if there are few of them and many columns. A grid quantizes them for each tile of columns, which pays for small
// matmuls. Requires a weight, and a target with kernels of integers (QAttention). Runs after fuse_integer_results, which rounds
// values where they are computed. O(nodes).
#include "passes/fuse/cost_decision.h"
#include "passes/fuse/rounded_operand.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/quantize/roundings.h"

namespace rlxc {
namespace {

using namespace match;

constexpr std::string_view kRoundedRows = "rounded_rows";
constexpr size_t kMostMoves = 4;

bool take_rows(Graph& g, NodeId n, PassContext& context) {
  ValueId rounded = g.operand(n, 0);
  const std::vector<NodeId> moves = moves_above(g, &rounded, kMostMoves);
  const NodeId source = g.def(rounded);
  auto r = fuse::rounding_of(g, source);
  if (!r || g.result_count(source) != 1) return false;
  const auto refuse = [&](std::string_view reason, std::string detail) {
    return decline_end(context, g, kRoundedRows, n, reason, std::move(detail));
  };
  const fuse::Verdict verdict = fuse::can_round_rows(g, n, *r, context);
  if (!verdict.fits && verdict.reason.empty()) return false;
  if (g.use_count(rounded) != 1) return refuse("multi_consumer", std::to_string(g.use_count(rounded)) + " readers of the rows");
  const fuse::RowsTime t = fuse::time_of_rows(g, n, source, context);
  if (const fuse::CostDecision time{t.together, t.apart + t.rounding}; !time.pays()) return refuse("cost", time.detail());
  if (!verdict.fits) return refuse(verdict.reason, verdict.detail);
  Builder b(g, nullptr, n);
  r->x = moved_alike(b, moves, r->x);
  const NodeId whole = fuse::with_rounding(g, n, *r);
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
