#include "passes/fuse/split_rounding.h"

#include <algorithm>
#include <optional>

#include "ir/region.h"
#include "passes/fuse/align_steps.h"
#include "passes/fuse/region_program.h"
#include "passes/match.h"
#include "passes/provenance.h"

namespace rlxc::fuse {
namespace {

using namespace match;

constexpr size_t kMostRoundedReaders = 16;

// The step whose value the last ones round by single numbers: div, round, add, clamp, cast.
std::optional<size_t> rounded_step(const Graph& g, NodeId n) {
  const auto& steps = g.attrs<FusionAttrs>(n).steps;
  if (!is_int8(steps.back().dtype)) return std::nullopt;
  for (size_t i = steps.size(); i-- > 1;) {
    const RegionStep& s = steps[i];
    const bool scales = s.op == OpKind::Div || s.op == OpKind::Mul;
    const bool fits = scales || s.op == OpKind::Round || s.op == OpKind::Add || s.op == OpKind::Clamp ||
                      (s.op == OpKind::Cast && i + 1 == steps.size());
    if (!fits || s.args[0] != (RegionStep::kStep | (i - 1)) || is_step(s.args[1]) || s.args[2] != RegionStep::kNone)
      return std::nullopt;
    if (s.args[1] != RegionStep::kNone && num_elements(g.type(g.operand(n, s.args[1]))) != 1) return std::nullopt;
    if (scales) return steps[i - 1].dtype == DType::F32 ? std::optional(i - 1) : std::nullopt;
  }
  return std::nullopt;
}

void split(Graph& g, NodeId n, NodeId floats) {
  const auto at = rounded_step(g, n);
  if (!at || *at == 0) return;
  const std::vector<RegionStep> steps = g.attrs<FusionAttrs>(n).steps;
  std::vector<uint16_t> codes(steps.size());
  RegionProgram sums(g), rounding(g);
  sums.operands.assign(g.operands(n).begin(), g.operands(n).begin() + kQuantOperands);
  for (size_t i = 0; i <= *at; ++i) codes[i] = sums.copy(n, steps[i], codes);
  Builder b(g, nullptr, n);
  const ValueId y = b.create(OpKind::FusedQMatMul, sums.operands, FusionAttrs{std::move(sums.steps)});
  const NodeId both[] = {floats, g.def(y)};
  if (!y.valid() || aligned_steps(g, both).steps.empty()) {
    if (y.valid()) erase_dead(g, g.def(y));
    return;
  }
  codes[*at] = rounding.code(y);
  for (size_t i = *at + 1; i < steps.size(); ++i) codes[i] = rounding.copy(n, steps[i], codes);
  const ValueId rounded = b.create(OpKind::ElementwiseRegion, rounding.operands, FusionAttrs{std::move(rounding.steps)});
  const NodeId members[] = {n};
  for (ValueId v : {y, rounded}) merge_origins(g, g.def(v), members);
  replace(g, g.result(n), rounded);
}

}  // namespace

void split_roundings(Graph& g) {
  const auto is_plain = [&](NodeId n) {
    return g.op(n) == OpKind::FusedQMatMul && g.attrs<FusionAttrs>(n).also.empty() &&
           !has_two_sums(g.attrs<FusionAttrs>(n).steps) && is_weight(g, g.operand(n, 1)) && g.rank(g.operand(n, 1)) == 2;
  };
  for (NodeId n : g.nodes()) {
    if (!is_plain(n) || g.dtype(g.result(n)) != DType::F32) continue;
    const ValueId x = g.operand(n, 0);
    if (g.use_count(x) > kMostRoundedReaders) continue;
    std::vector<NodeId> rounded;
    for (const Graph::Use& use : g.uses(x))
      if (use.index == 0 && is_plain(use.user) && is_int8(g.dtype(g.result(use.user)))) rounded.push_back(use.user);
    for (NodeId r : rounded) split(g, r, n);
  }
}

}  // namespace rlxc::fuse
