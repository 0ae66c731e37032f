// Names of tensors in calibration records.
#pragma once
#include <functional>
#include <string>

#include "ir/graph.h"

namespace rlxc {

// Calls f for every value of the graphs in use, in execution order, with a unique name: its own, or, for values created by
// passes, the label or the kind of its node; repeated names get "~2", "~3", .... Equal modules give equal names. O(values).
void each_tensor(const Module&, const std::function<void(GraphId, ValueId, const std::string&)>& f);

// The name of a layer in calibration records: the label of the node, or, if it has none, the name of its result. O(1).
std::string layer_name(const Graph&, NodeId, const std::string& result);

}  // namespace rlxc
