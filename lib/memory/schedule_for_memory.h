// An order of the nodes of a graph in which fewer bytes live at a time.
#pragma once
#include <optional>
#include <vector>

#include "memory/liveness.h"

namespace rlxc {

// All nodes, or nullopt where no order with a lower peak was found. Views, leaves and the prologue follow as early as they can.
// Operations with effects keep their order. Judged by sizes at `sample_size` where they are symbolic.
std::optional<std::vector<NodeId>> order_for_memory(const Graph&, const GraphPlan& given, const Liveness&,
                                                    const std::vector<GraphPlan>& plans);

}  // namespace rlxc
