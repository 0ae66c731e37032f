// The best of all greedy orders, then rounds that move whatever stuck out of the goal to the front of the best order ("squeaky
// wheel" optimisation, Joslin and Clements, JAIR 1999).
#pragma once
#include <cstdint>

#include "plan/placement.h"

namespace rlxc::plan {

// Lowers `best` until it is at most `enough` or `work` (see Placer) is used up. Leaves it without offsets if no order ended.
void place_greedily(const Instance&, int64_t enough, uint32_t repair_rounds, uint64_t work, Placement& best);

}  // namespace rlxc::plan
