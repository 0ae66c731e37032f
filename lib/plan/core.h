// Large instances are hard only where the load is close to the bound. The items that live there, the core, are placed by the
// exact search, the others around it.
#include <cstdint>

#include "plan/placement.h"
#include "plan/search.h"

namespace rlxc::plan {

// `work` is that of what is placed around the core, see Placer.
void place_core(const Instance&, const SearchOptions&, int64_t enough, uint64_t* work, Effort&, Placement& best);

}  // namespace rlxc::plan
