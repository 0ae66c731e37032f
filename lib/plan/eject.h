// Search among placements that are not complete: an item without a place is put where it conflicts least, and what it conflicts
// with has to find another place in turn. Items that were hard to place weigh more each time, so that they are left alone (Nagata
// and Bräysy, "A powerful route minimization heuristic", Operations Research Letters 37, 2009).
#pragma once
#include <cstdint>

#include "plan/placement.h"

namespace rlxc::plan {

// Lowers `best`, which must have offsets, in steps until it is at most `enough` or `work` (visits as in greedy orders) is used
// up, which it reduces. Fixed items stay. Memory is linear in the items, a step takes a visit for each item that lives with the
// one that is placed.
void place_by_ejection(const Instance&, int64_t enough, uint64_t* work, Placement& best);

}  // namespace rlxc::plan
