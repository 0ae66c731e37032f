// The exact search is at its best where nothing can be wasted. Room that is left below a height is filled up with items of its
// own, so that nothing is: where room begins and where it ends again by as much, there may well be one hole.
#pragma once
#include "plan/placement.h"
#include "plan/search.h"

namespace rlxc::plan {

// Looks for a placement of at most `height` with all room filled up. What this does not find may still exist.
void place_with_fillers(const Instance&, const SearchOptions&, int64_t height, Effort&, Placement& best);

}  // namespace rlxc::plan
