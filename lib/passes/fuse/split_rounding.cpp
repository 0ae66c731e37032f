#include "passes/fuse/split_rounding.h"

#include <algorithm>
#include <optional>

#include "ir/region.h"
#include "passes/fuse/align_steps.h"
#include "passes/match.h"
#include "passes/provenance.h"

namespace rlxc::fuse {
namespace {

using namespace match;

constexpr size_t kMostRoundedReaders = 16;

// The step whose value the last ones round by single numbers: div, round, add, clamp, cast.
std::optional<size_t> rounded_step(const Graph& g, NodeId n) {
  const auto& steps = g.attrs<RegionAttrs>(n).steps;
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

// Steps first .. last, which read those before as operand 0, if there are any, and their operands.
struct StepsPart {
  std::vector<RegionStep> steps;
  std::vector<ValueId> operands;
};

StepsPart part_of(const Graph& g, NodeId n, size_t first, size_t last, std::vector<ValueId> operands) {
  StepsPart p{{}, std::move(operands)};
  const auto& steps = g.attrs<RegionAttrs>(n).steps;
  for (size_t i = first; i <= last; ++i) {
    RegionStep s = steps[i];
    for (uint16_t& arg : s.args) {
      if (arg == RegionStep::kNone) continue;
      if (is_step(arg)) {
        const size_t from = arg & ~RegionStep::kStep;
        arg = from < first ? 0 : static_cast<uint16_t>(RegionStep::kStep | (from - first));
        continue;
      }
      p.operands.push_back(g.operand(n, arg));
      arg = static_cast<uint16_t>(p.operands.size() - 1);
    }
    p.steps.push_back(s);
  }
  return p;
}

void split(Graph& g, NodeId n, NodeId floats) {
  const auto at = rounded_step(g, n);
  if (!at || *at == 0) return;
  std::vector<ValueId> first(g.operands(n).begin(), g.operands(n).begin() + kQuantOperands);
  StepsPart sums = part_of(g, n, 0, *at, std::move(first));
  Builder b(g, nullptr, n);
  const ValueId y = b.create(OpKind::FusedQMatMul, sums.operands, RegionAttrs{std::move(sums.steps)});
  const NodeId both[] = {floats, g.def(y)};
  if (!y.valid() || aligned_steps(g, both).steps.empty()) {
    if (y.valid()) erase_dead(g, g.def(y));
    return;
  }
  StepsPart rounding = part_of(g, n, *at + 1, g.attrs<RegionAttrs>(n).steps.size() - 1, {y});
  const ValueId codes = b.create(OpKind::ElementwiseRegion, rounding.operands, RegionAttrs{std::move(rounding.steps)});
  const NodeId members[] = {n};
  for (ValueId v : {y, codes}) merge_origins(g, g.def(v), members);
  replace(g, g.result(n), codes);
}

}  // namespace

void split_roundings(Graph& g) {
  const auto is_plain = [&](NodeId n) {
    return g.op(n) == OpKind::FusedQMatMul && g.attrs<RegionAttrs>(n).also.empty() &&
           !has_two_sums(g.attrs<RegionAttrs>(n).steps) && is_weight(g, g.operand(n, 1)) && g.rank(g.operand(n, 1)) == 2;
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
