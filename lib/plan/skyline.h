// Placement from the ground up: each item goes on top of the skyline of those before it, one of the lowest first. Where many
// items live long at once, this wastes far less than giving each in turn the first gap that fits.
#pragma once
#include <cstdint>

#include "plan/placement.h"

namespace rlxc::plan {

// Several orders among the low items, then rounds in which what stuck out of the goal comes earlier. Lowers `best` until it is at
// most `enough`, or `rounds` brought no gain, or `work` (item visits) is used up. One placement is O(n^2). No fixed items.
void place_on_skyline(const Instance&, int64_t enough, uint32_t rounds, uint64_t work, Placement& best);

}  // namespace rlxc::plan
