#include "driver/rematerialise.h"

#include <algorithm>

namespace rlxc {
namespace {

// Is what the node reads there anyway after the peak?
bool operands_stay(const Graph& g, const GraphPlan& plan, NodeId n, uint32_t reader_step) {
  const auto operands = g.operands(n);
  return std::all_of(operands.begin(), operands.end(), [&](ValueId v) {
    if (!v.valid()) return true;
    const Slot& s = plan.slot[v.raw];
    if (s.region == Region::Activations || s.region == Region::Output || s.region == Region::State)
      return s.last_step >= reader_step;
    return s.region != Region::None;
  });
}

}  // namespace

std::vector<ValueId> values_to_compute_again(const Graph& g, const GraphPlan& plan) {
  std::vector<ValueId> values;
  for (ValueId v : plan.peak_values) {
    const NodeId n = g.def(v);
    if (!has_trait(g.op(n), kElementwise) || g.result_count(n) != 1 || plan.step[n.raw] >= plan.peak_step || g.is_output(v))
      continue;
    bool at_peak = false;
    uint32_t first_late = ~uint32_t{0};
    for (const Graph::Use use : g.uses(v)) {
      const uint32_t step = plan.step[use.user.raw];
      at_peak |= step == plan.peak_step;
      if (step > plan.peak_step) first_late = std::min(first_late, step);
    }
    if (!at_peak && first_late != ~uint32_t{0} && operands_stay(g, plan, n, first_late)) values.push_back(v);
  }
  std::stable_sort(values.begin(), values.end(),
                   [&](ValueId a, ValueId b) { return plan.slot[a.raw].size.size() > plan.slot[b.raw].size.size(); });
  return values;
}

NodeId compute_again(Graph& g, const GraphPlan& plan, ValueId v) {
  const NodeId n = g.def(v);
  std::vector<Graph::Use> late;
  for (const Graph::Use use : g.uses(v))
    if (plan.step[use.user.raw] > plan.peak_step) late.push_back(use);
  // Nodes have their ids in execution order: the module was compact when it was planned.
  const auto first = std::min_element(late.begin(), late.end(), [](auto a, auto b) { return a.user.raw < b.user.raw; });
  const std::vector<ValueId> operands(g.operands(n).begin(), g.operands(n).end());
  const TypeId type = g.type_id(v);
  const NodeId copy = g.make_node(g.op(n), operands, g.attr_id(n), {&type, 1}, {}, first->user);
  g.set_origin(copy, g.origin(n));
  for (const Graph::Use use : late) g.set_operand(use.user, use.index, g.result(copy));
  return copy;
}

void undo_compute_again(Graph& g, NodeId copy, ValueId original) {
  g.replace_all_uses(g.result(copy), original);
  g.erase(copy);
}

}  // namespace rlxc
