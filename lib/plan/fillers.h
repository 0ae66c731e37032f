// The exact search prunes best where no space can be wasted. Filler items take the free space below a height, guessed as holes:
// space that becomes free and is taken again later by the same amount is likely one hole.
#pragma once
#include "plan/placement.h"
#include "plan/search.h"

namespace rlxc::plan {

// Searches a placement of at most `height` with fillers. Failure proves nothing. Skips instances with alignment above 1.
void place_with_fillers(const Instance&, const SearchOptions&, int64_t height, Effort&, Placement& best);

}  // namespace rlxc::plan
