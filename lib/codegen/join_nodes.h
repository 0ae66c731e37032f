// Whether nodes can share a launch (Graph::launch): kernel/join.h makes one kernel of theirs.
#pragma once
#include <span>

#include "codegen/lower.h"

namespace rlxc::codegen {

// In whatever form the package will have them: with and without what is kept from when weights are loaded, with and without wide
// accesses. `why` says what stands against it. Takes as long as writing their kernels four times.
bool can_join(const Graph&, std::span<const NodeId>, const CapabilityRow&, const IsWeight&, std::string* why);

// The row for values that may lie anywhere: accesses of one element.
CapabilityRow without_vectors(CapabilityRow);

}  // namespace rlxc::codegen
