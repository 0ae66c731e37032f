// Fuses an integer matmul or convolution with the elementwise steps that are its only users: scales, bias, activation, residual
// and requantization.
//   region(q_matmul(a, b, za, zb), ...)  ->  fused_q_matmul(a, b, za, zb, ...)
// Declined ("integer_matmul") if the sums have other users or the steps exceed the target's limit. O(nodes).
#include <algorithm>

#include "ir/region.h"
#include "passes/fuse/region_program.h"
#include "passes/fuse/region_step.h"
#include "passes/match.h"
#include "passes/passes.h"

namespace rlxc {
namespace {

using namespace match;

constexpr std::string_view kIntegerMatmul = "integer_matmul";

// Returns whether the dims from axis 2 on equal those of `whole`, or are all 1.
bool fits_positions(const Graph& g, ValueId v, ValueId whole) {
  const auto own = g.dims(v), all = g.dims(whole);
  size_t wide = 0, repeated = 0;  // axes along which `whole` varies, and of these those along which v does not
  for (size_t i = 2; i < all.size(); ++i) {
    if (all[i] == Dim(1)) continue;
    ++wide;
    repeated += i + own.size() < all.size() || own[i + own.size() - all.size()] == Dim(1);
  }
  return repeated == 0 || repeated == wide;
}

bool take_steps(Graph& g, NodeId n, PassContext& context) {
  const bool conv = g.op(n) == OpKind::QConv;
  const ValueId sums = g.result(n);
  const auto refuse = [&](std::string_view reason, std::string detail) {
    return decline_end(context, g, kIntegerMatmul, n, reason, std::move(detail));
  };
  const NodeId end = g.only_user(sums);
  if (!end.valid()) return refuse("multi_consumer", std::to_string(g.use_count(sums)) + " readers of the sums");
  if (end == g.terminator() || !is_steps(g, end)) return false;
  if (!same_dims(g, sums, g.result(end))) return refuse("shape", "the steps after it are of another shape");
  RegionProgram p(g);
  const auto operands = g.operands(n);
  p.operands.assign(operands.begin(), operands.end());
  p.operands.resize(kQuantOperands);
  p.add(core_step(g, n), sums);
  p.copy(end);
  for (size_t i = kQuantOperands; conv && i < p.operands.size(); ++i)
    if (!fits_positions(g, p.operands[i], sums)) return refuse("shape", "a step varies along some of the spatial axes");
  const RegionLimits limits = region_limits(context.target, true);
  if (p.steps.size() > limits.steps) return refuse("step_limit", std::to_string(p.steps.size()) + " steps");
  if (!limits.take(g, p.operands)) return refuse("operand_limit", std::to_string(p.operands.size()) + " operands");
  Builder b(g, nullptr, end);
  const ValueId y = b.create(conv ? OpKind::FusedQConv : OpKind::FusedQMatMul, p.operands, FusionAttrs{p.steps});
  if (!y.valid()) return false;
  const NodeId members[] = {n, end};
  context.decisions.push_back(fused(g, kIntegerMatmul, end, members, 2 * bytes(g, sums)));
  replace_group(g, members, g.result(end), y);
  return true;
}

}  // namespace

PassResult fuse_integer_matmul(Module& m, PassContext& context) {
  int64_t found = 0;
  const auto native = [&](OpKind op) { return context.target.native.test(static_cast<size_t>(op)); };
  each_graph(m, [&](Graph& g) {
    for (NodeId n : g.nodes())
      if ((g.op(n) == OpKind::QMatMul && native(OpKind::FusedQMatMul)) ||
          (g.op(n) == OpKind::QConv && native(OpKind::FusedQConv)))
        found += context.rewrite([&] { return take_steps(g, n, context); });
  });
  return {found > 0, {{"integer_matmul", found}}};
}

}  // namespace rlxc
