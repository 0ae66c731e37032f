// Provenance of nodes that replace several others.
#pragma once
#include <span>

#include "ir/graph.h"

namespace rlxc {

// The sources, passes and names of all members, without repetition. O(sources).
Origin merged_origin(const Graph&, std::span<const NodeId> members);
// Adds all `members` and their sources to the sources of `into`, and records the running pass. O(sources).
void merge_origins(Graph&, NodeId into, std::span<const NodeId> members);
// The same for all nodes created since node_capacity() was `first`.
void merge_origins_since(Graph&, size_t first, std::span<const NodeId> members);

}  // namespace rlxc
