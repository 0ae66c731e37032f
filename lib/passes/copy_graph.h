#pragma once
#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace rlxc {

// A copy of the graph in the same module, with its inputs and outputs. `made` receives the new nodes without the inputs, in
// order. Bodies are shared (passes/inline_body.h). O(nodes).
Graph& copy_graph(const Graph&, std::string_view name, std::vector<NodeId>* made = nullptr);

}  // namespace rlxc
