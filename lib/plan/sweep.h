// Placement in time order, as an allocator would do it while the program runs, in O(n log n) whatever the overlaps: the tightest
// free gap at the item's birth, or the top.
#pragma once
#include <cstdint>
#include <vector>

#include "plan/instance.h"

namespace rlxc::plan {

// Returns the height. The instance must have no fixed items.
int64_t place_by_sweep(const Instance&, std::vector<int64_t>* offsets);

}  // namespace rlxc::plan
