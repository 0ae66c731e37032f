// The memory plan by slot: values that share bytes (views, in-place results) are one slot.
#pragma once
#include <vector>

#include "ir/lir.h"

namespace rlxc::report {

struct RootSlot {
  ValueId root;
  Region region = Region::None;
  Dim offset, size;
  uint32_t first_step = 0, last_step = 0;  // over all values in the slot
  uint32_t values = 0;                     // number of values in the slot
};

// Sorted by root. O(values).
std::vector<RootSlot> root_slots(const Graph&, const GraphPlan&);

}  // namespace rlxc::report
