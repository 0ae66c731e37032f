#include "passes/fuse/region_program.h"

#include "passes/fuse/region_step.h"

namespace rlxc {

bool is_steps(const Graph& g, NodeId n) { return g.op(n) == OpKind::ElementwiseRegion || can_be_step(g, n); }

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
  return add({op, t, {a, b, RegionStep::kNone}, 0, 0}, given);
}

void RegionProgram::copy(NodeId n) {
  const size_t first = steps.size();
  std::vector<RegionStep> body;
  if (g_.op(n) == OpKind::ElementwiseRegion || g_.op(n) == OpKind::FusedQMatMul) {
    body = g_.attrs<RegionAttrs>(n).steps;
  } else if (g_.op(n) == OpKind::FusedQConv) {
    body = g_.attrs<FusedQConvAttrs>(n).steps;
  } else if (g_.op(n) == OpKind::NormRegion) {
    body = g_.attrs<NormRegionAttrs>(n).steps;
  } else {
    body.push_back(make_step(g_, n));
    for (size_t i = 0; i < g_.operands(n).size(); ++i) body[0].args[i] = static_cast<uint16_t>(i);
  }
  for (size_t k = 0; k < body.size(); ++k) {
    for (uint16_t& a : body[k].args) {
      if (a == RegionStep::kNone) continue;
      a = a & RegionStep::kStep ? static_cast<uint16_t>(a + first) : code(g_.operand(n, a));
    }
    add(body[k], k + 1 == body.size() ? g_.result(n) : ValueId());
  }
}

}  // namespace rlxc
