// Reorders the nodes of a graph to lower the peak of live bytes.
#pragma once
#include <optional>
#include <vector>

#include "memory/liveness.h"

namespace rlxc {

// Returns all nodes, or nullopt if no order with a lower peak was found. Views and leaves come as early as possible; impure ops
// keep their order. Symbolic sizes are compared at `sample_size`.
std::optional<std::vector<NodeId>> order_for_memory(const Graph&, const GraphPlan& given, const Liveness&,
                                                    const std::vector<GraphPlan>& plans);

}  // namespace rlxc
