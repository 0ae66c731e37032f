// Large instances are hard only where the load is close to the bound. The exact search places the items there (the core), greedy
// orders place the others around them.
#include <cstdint>

#include "plan/placement.h"
#include "plan/search.h"

namespace rlxc::plan {

// `work`: budget for the items around the core, see Placer.
void place_core(const Instance&, const SearchOptions&, int64_t enough, uint64_t* work, Effort&, Placement& best);

}  // namespace rlxc::plan
