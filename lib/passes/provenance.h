// Where a node that stands for several came from.
#pragma once
#include <span>

#include "ir/graph.h"

namespace rlxc {

// The sources and passes of all members, each once, and their names. O(sources).
Origin merged_origin(const Graph&, std::span<const NodeId> members);
// `into` names as its sources all nodes of `members` (and theirs), and the running pass as its maker. O(sources).
void merge_origins(Graph&, NodeId into, std::span<const NodeId> members);

}  // namespace rlxc
