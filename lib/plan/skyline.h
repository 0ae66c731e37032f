// Placement from the bottom up: each item goes on top of the skyline, one of the lowest first. If many items are live for long,
// this wastes far less than first fit in a fixed order.
#pragma once
#include <cstdint>

#include "plan/placement.h"

namespace rlxc::plan {

// Tries several orders, then repair rounds that move items above the goal forward. Stops when `best` is at most `enough`, after
// `rounds` rounds without a gain, or when `work` (item visits) is used up. O(n^2) per placement. No fixed items.
void place_on_skyline(const Instance&, int64_t enough, uint32_t rounds, uint64_t work, Placement& best);

}  // namespace rlxc::plan
