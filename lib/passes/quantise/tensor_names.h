// Names of tensors in calibration records.
#pragma once
#include <functional>
#include <string>

#include "ir/graph.h"

namespace rlxc {

// Calls f for every value of the graphs in use, in execution order, with a unique name: its own, or, for values created by
// passes, the label of its node; repeated names get "~2", "~3", .... Equal modules give equal names. O(values).
void each_tensor(const Module&, const std::function<void(GraphId, ValueId, const std::string&)>& f);

}  // namespace rlxc
