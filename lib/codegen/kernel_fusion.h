// Sequential kernel fusion: decides whether nodes can share a launch (Graph::launch), see kernel/fuse_kernels.h.
#pragma once
#include <span>
#include <string>

#include "codegen/lowering_cache.h"

namespace rlxc::codegen {

// For targets with a grid. Sets `reason` on failure. Lowers the nodes as the package does. The result is valid for any later
// buffer alignment, because no limit depends on access widths.
bool can_fuse_kernels(const Graph&, const GraphLayouts&, std::span<const NodeId>, LoweringCache&, std::string* reason);

}  // namespace rlxc::codegen
