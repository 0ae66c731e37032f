// The order of nodes in text forms (IR text, graph JSON, lir.json), whose readers take the order of a graph's inputs from it.
#pragma once
#include <vector>

#include "ir/graph.h"

namespace rlxc {

// The nodes in execution order, with all inputs first where their nodes are not in the order of `inputs()`. O(nodes).
std::vector<NodeId> text_order(const Graph&);

}  // namespace rlxc
