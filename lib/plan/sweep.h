// Placement in time order, as a run-time allocator does it.
#pragma once
#include <cstdint>
#include <vector>

#include "plan/instance.h"

namespace rlxc::plan {

// These return the height. The instance must have no fixed items.

// Takes the tightest free gap at the item's first section, or the top. O(n log n).
int64_t place_by_sweep(const Instance&, std::vector<int64_t>* offsets);

// Places an item next to the live item whose end is closest to its own, so that neighbours are freed together: in a gap below
// `ceiling`, or on top. Reduces `work` by a visit per live item and placement; returns INT64_MAX if it is used up.
int64_t place_by_deaths(const Instance&, int64_t ceiling, uint64_t* work, std::vector<int64_t>* offsets);

}  // namespace rlxc::plan
