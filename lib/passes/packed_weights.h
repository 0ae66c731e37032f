// What is made of weights when they are loaded and kept for all runs, which --max-packed limits.
#pragma once
#include "ir/graph.h"
#include "passes/pass.h"

namespace rlxc {

// Bytes that may still be made of weights; INT64_MAX without a limit. O(nodes).
int64_t packed_room(const Graph&, const PassContext&);

}  // namespace rlxc
