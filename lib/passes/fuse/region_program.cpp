#include "passes/fuse/region_program.h"

#include <algorithm>

#include "ir/region.h"
#include "passes/fuse/region_step.h"
#include "passes/match.h"

namespace rlxc {

RegionLimits region_limits(const TargetTraits& target, bool epilogue) {
  constexpr uint32_t kMostEpilogueSteps = 96, kMostEpilogueArrays = 16, kMostArrays = 32;
  const uint32_t steps = target.region_max_steps, inputs = target.region_max_inputs;
  if (!epilogue) return {steps, inputs, std::min(inputs, kMostArrays)};
  return {std::min(steps, kMostEpilogueSteps), inputs, std::min(inputs, kMostEpilogueArrays)};
}

bool RegionLimits::take(const Graph& g, std::span<const ValueId> operands, size_t results) const {
  size_t all = results, large = results;
  for (ValueId v : operands) {
    ++all;
    large += !v.valid() || num_elements(g.type(v)) != 1;
  }
  return all <= inputs && large <= arrays;
}

bool is_loaded(const Graph& g, ValueId v) { return g.type(v).is_static() && match::is_weight(g, v); }

bool is_steps(const Graph& g, NodeId n) {
  return g.op(n) == OpKind::ElementwiseRegion ? g.result_count(n) == 1 : can_be_step(g, n);
}

uint16_t RegionProgram::code(ValueId v) {
  for (const auto& [value, c] : known_)
    if (value == v) return c;
  operands.push_back(v);
  known_.emplace_back(v, static_cast<uint16_t>(operands.size() - 1));
  return known_.back().second;
}

uint16_t RegionProgram::add(RegionStep s, ValueId given) {
  steps.push_back(s);
  const auto c = static_cast<uint16_t>(RegionStep::kStep | (steps.size() - 1));
  if (given.valid()) known_.emplace_back(given, c);
  return c;
}

uint16_t RegionProgram::add(OpKind op, DType t, uint16_t a, uint16_t b, ValueId given) {
  return add({op, t, {a, b, RegionStep::kNone}}, given);
}

void RegionProgram::copy(NodeId n, bool share) {
  give(g_.result(n), copy(
                         n, [&](ValueId v) { return code(v); }, share));
}

uint16_t RegionProgram::copy(NodeId n, const std::function<uint16_t(ValueId)>& of, bool share) {
  std::vector<RegionStep> body;
  if (const auto* fused = std::get_if<FusionAttrs>(&g_.module().attrs[g_.attr_id(n)])) body = fused->steps;
  else body.push_back(make_step(g_, n));
  std::vector<uint16_t> codes;  // by step of the body
  for (RegionStep& s : body) {
    for (uint16_t& a : s.args) {
      if (a == RegionStep::kNone) continue;
      a = a & RegionStep::kStep ? codes[a & ~RegionStep::kStep] : of(g_.operand(n, a));
    }
    const auto known = share && !is_core(s) ? std::ranges::find(steps, s) : steps.end();
    codes.push_back(known == steps.end() ? add(s) : static_cast<uint16_t>(RegionStep::kStep | (known - steps.begin())));
  }
  return codes.back();
}

uint16_t RegionProgram::copy(NodeId n, RegionStep s, std::span<const uint16_t> codes) {
  for (uint16_t& a : s.args)
    if (a != RegionStep::kNone) a = is_step(a) ? codes[a & ~RegionStep::kStep] : code(g_.operand(n, a));
  return add(s);
}

}  // namespace rlxc
