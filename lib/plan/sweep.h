// Placement in time order, as an allocator would do it while the program runs.
#pragma once
#include <cstdint>
#include <vector>

#include "plan/instance.h"

namespace rlxc::plan {

// Both return the height. The instance must have no fixed items.

// The tightest free gap at the item's birth, or the top: O(n log n) whatever the overlaps.
int64_t place_by_sweep(const Instance&, std::vector<int64_t>* offsets);

// Beside the live item that dies closest to it, so that free bytes come together, in a gap below `ceiling` or on top of all.
// Takes a visit for each live item at each birth; gives up with INT64_MAX where `work`, which is reduced by them, is used up.
int64_t place_by_deaths(const Instance&, int64_t ceiling, uint64_t* work, std::vector<int64_t>* offsets);

}  // namespace rlxc::plan
