#include "report/slots.h"

#include <algorithm>

namespace rlxc::report {

std::vector<RootSlot> root_slots(const Graph& g, const GraphPlan& plan) {
  std::vector<RootSlot> by_root(g.value_capacity());
  size_t count = 0;
  for (NodeId n : g.nodes())
    for (size_t r = 0; r < g.result_count(n); ++r) {
      const ValueId v = g.result(n, r);
      const Slot& s = plan.slot[v.raw];
      if (s.region == Region::None) continue;
      const ValueId root = s.root.valid() ? s.root : v;
      RootSlot& slot = by_root[root.raw];
      if (slot.values++ == 0) {
        const Slot& owner = plan.slot[root.raw];
        slot = {root, owner.region, owner.offset, owner.size, s.first_step, s.last_step, 1};
        ++count;
      }
      slot.first_step = std::min(slot.first_step, s.first_step);
      slot.last_step = std::max(slot.last_step, s.last_step);
    }
  std::vector<RootSlot> slots;
  slots.reserve(count);
  for (const RootSlot& s : by_root)
    if (s.values > 0) slots.push_back(s);
  return slots;
}

}  // namespace rlxc::report
