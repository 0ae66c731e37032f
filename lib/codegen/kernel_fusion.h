// Whether nodes can share a launch (Graph::launch): kernel/fuse_kernels.h makes one kernel of theirs.
#pragma once
#include <span>
#include <string>

#include "codegen/lowering_cache.h"

namespace rlxc::codegen {

// For a target with a grid of lanes. `reason` says what stands against it. Lowers the nodes as the package will: no limit depends
// on the width of accesses, so it holds whatever the plan makes of their alignment.
bool can_fuse_kernels(const Graph&, const GraphLayouts&, std::span<const NodeId>, LoweringCache&, std::string* reason);

}  // namespace rlxc::codegen
