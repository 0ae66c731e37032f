// Large instances are hard in a few places only. Each item that sticks out is placed anew together with what lives and dies
// around it, while all that crosses the ends of that window stays where it is ("large neighbourhood search", Shaw, CP 1998).
#pragma once
#include <cstdint>

#include "plan/placement.h"

namespace rlxc::plan {

// Lowers `best` toward `enough` within `work` (see Placer).
void repair_windows(const Instance&, int64_t enough, uint64_t* work, Placement& best);

}  // namespace rlxc::plan
