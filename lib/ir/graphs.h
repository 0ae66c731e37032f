// The graphs of a module that are in use: main and the bodies of its nodes, at any depth. Bodies of erased nodes are not.
#pragma once
#include <vector>

#include "ir/graph.h"

namespace rlxc {

// Owners before their bodies, main first. O(nodes).
std::vector<GraphId> graphs_in_use(const Module&);
size_t live_nodes(const Module&);  // of these graphs

// Renumbers the nodes of graphs that have lost a third, so that the rest lie close together and are walked faster. Ids from
// before are invalid. O(nodes).
void compact_sparse(Module&);

// Where the operands of a node with bodies end that are not captures: operands from there on are captured values, and
// operand i is input i - input_offset of each body. Requires the trait kBody.
struct Captures {
  size_t first = 0;         // operand number
  size_t input_offset = 0;  // operand number minus body input number
};
Captures captures(const Graph&, NodeId);

}  // namespace rlxc
