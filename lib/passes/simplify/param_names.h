// Params of the main graph by name, for passes that change what a Param is.
#pragma once
#include <string>
#include <vector>

#include "ir/graph.h"
#include "support/diagnostics.h"

namespace rlxc {

// One Param for each name, in order; an error for each name that no Param has. O(nodes).
std::vector<NodeId> find_params(const Graph& main, const std::vector<std::string>& names, Diagnostics&);

}  // namespace rlxc
