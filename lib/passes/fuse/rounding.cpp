#include "passes/fuse/rounding.h"

#include <algorithm>

#include "ir/builder.h"
#include "ir/region.h"
#include "passes/match.h"

namespace rlxc::fuse {

using namespace match;

namespace {

constexpr uint16_t kAbsent = RegionStep::kNone, kEarlier = RegionStep::kStep;

}  // namespace

std::optional<Rounding> rounding_of(const Graph& g, NodeId n) {
  if (!n.valid() || g.op(n) != OpKind::ElementwiseRegion) return std::nullopt;
  const auto& steps = g.attrs<FusionAttrs>(n).steps;
  const DType to = g.dtype(g.result(n));
  if (!is_int8(to) || (steps.size() != 4 && steps.size() != 5)) return std::nullopt;
  const bool shifted = steps.size() == 5;
  const double low = to == DType::U8 ? 0 : -128;
  size_t at = 0;
  const auto next = [&](OpKind op, DType t, uint16_t second = kAbsent) {
    const RegionStep& s = steps[at];
    const auto first = static_cast<uint16_t>(at == 0 ? s.args[0] : kEarlier | (at - 1));
    ++at;
    return s.op == op && s.dtype == t && s.args[0] == first && s.args[1] == second;
  };
  const auto operand = [&](size_t step, size_t arg) {
    const uint16_t a = steps[step].args[arg];
    return a == kAbsent || a & kEarlier ? ValueId() : g.operand(n, a);
  };
  const Rounding r{operand(0, 0), operand(0, 1), shifted ? operand(2, 1) : ValueId()};
  if (!next(OpKind::Div, DType::F32, steps[0].args[1]) || !next(OpKind::Round, DType::F32) ||
      (shifted && !next(OpKind::Add, DType::F32, steps[2].args[1])))
    return std::nullopt;
  const RegionStep& clamp = steps[at];
  if (!next(OpKind::Clamp, DType::F32) || clamp.alpha() != low || clamp.beta() != low + 255 || !next(OpKind::Cast, to))
    return std::nullopt;
  const auto one = [&](ValueId v) { return v.valid() && g.dtype(v) == DType::F32 && num_elements(g.type(v)) == 1; };
  if (!r.x.valid() || g.dtype(r.x) != DType::F32 || !same_dims(g, r.x, g.result(n)) || !one(r.scale) || (shifted && !one(r.zero)))
    return std::nullopt;
  return r;
}

bool same_zero(const Graph& g, ValueId added, ValueId subtracted) {
  if (added.valid() && subtracted.valid()) {
    const NodeId cast = g.def(added);
    if (cast.valid() && g.op(cast) == OpKind::Cast && g.operand(cast, 0) == subtracted) return true;
  }
  const auto number = [&](ValueId v) { return v.valid() ? scalar(g, v) : std::optional(0.0); };
  const auto a = number(added);
  return a && a == number(subtracted);
}

std::vector<ValueId> rounding_operands(Graph& g, NodeId n, const Rounding& r, std::vector<RegionStep>* steps) {
  for (RegionStep& s : *steps)
    for (uint16_t& a : s.args)
      if (a != RegionStep::kNone && !(a & RegionStep::kStep)) ++a;
  const DType codes = g.dtype(g.operand(n, 0));
  std::vector<ValueId> operands(g.operands(n).begin(), g.operands(n).end());
  operands.resize(std::max(operands.size(), kQuantOperands));
  operands.insert(operands.begin() + kQuantOperands, r.scale);
  operands[0] = r.x;
  if (!operands[2].valid()) operands[2] = Builder(g, nullptr, n).scalar(codes, 0);
  return operands;
}

void take_over_rounding(Graph& g, NodeId n, NodeId rounding, NodeId whole, std::string_view pattern, PassContext& context) {
  const NodeId members[] = {n, rounding};
  context.decisions.push_back(fused(g, pattern, n, members, 2 * bytes(g, g.result(rounding))));
  for (size_t i = g.result_count(n); i-- > 1;) g.replace_all_uses(g.result(n, i), g.result(whole, i));
  replace_group(g, members, g.result(n), g.result(whole));
}

}  // namespace rlxc::fuse
