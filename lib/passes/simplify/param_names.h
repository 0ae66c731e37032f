// Looks up Params of the main graph by name, for passes that change their kind.
#pragma once
#include <string>
#include <vector>

#include "ir/graph.h"
#include "support/diagnostics.h"

namespace rlxc {

// One Param per name, in order. Reports an error for each name without a Param. O(nodes).
std::vector<NodeId> find_params(const Graph& main, const std::vector<std::string>& names, Diagnostics&);

}  // namespace rlxc
