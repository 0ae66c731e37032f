// The budget for load-time results, limited by --max-packed and --device-memory.
#pragma once
#include "ir/graph.h"
#include "passes/pass.h"

namespace rlxc {

// Remaining bytes for load-time results; INT64_MAX without a limit. O(nodes).
int64_t packed_room(const Graph&, const PassContext&);

}  // namespace rlxc
