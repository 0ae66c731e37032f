// Search over incomplete placements: an unplaced item goes to the offset with the least weight of conflicts, and the items in
// conflict are ejected. An item placed with conflicts gains weight, so it is ejected less often (Nagata and Bräysy, "A powerful
// route minimization heuristic", Operations Research Letters 37, 2009).
#pragma once
#include <cstdint>

#include "plan/placement.h"

namespace rlxc::plan {

// Lowers `best`, which must have offsets, until its height is at most `enough` or `work` is used up. Reduces `work` by the
// visits, as in greedy orders. Fixed items stay. O(items) memory; a step visits each item that overlaps the placed one in time.
void place_by_ejection(const Instance&, int64_t enough, uint64_t* work, Placement& best);

}  // namespace rlxc::plan
