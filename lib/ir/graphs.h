// Graphs in use: main and the bodies of live nodes, at any depth.
#pragma once
#include <vector>

#include "ir/graph.h"

namespace rlxc {

// Parents before their bodies, main first. O(nodes).
std::vector<GraphId> graphs_in_use(const Module&);
// Whether a run executes the bodies of the node. A custom op with a kernel keeps its body for the reference evaluator alone.
bool runs_bodies(const Graph&, NodeId);
size_t live_nodes(const Module&);  // over graphs in use

// Compacts graphs that have lost a third of their nodes, for locality. Invalidates ids. O(nodes).
void compact_sparse(Module&);

// The captured values of a node with bodies are operands `first` and later; operand i is input i - input_offset of each body.
// Requires the trait kBody.
struct Captures {
  size_t first = 0;         // operand index
  size_t input_offset = 0;  // operand index minus body input index
};
Captures captures(const Graph&, NodeId);

}  // namespace rlxc
