// The names by which calibration records speak of tensors.
#pragma once
#include <functional>
#include <string>

#include "ir/graph.h"

namespace rlxc {

// Calls f for every value of the graphs in use, in execution order, with a name that no other value has: its own, or, for values
// that passes made, the label of its node; names that occur again end in "~2", "~3", .... Equal modules give equal names.
// O(values).
void each_tensor(const Module&, const std::function<void(GraphId, ValueId, const std::string&)>& f);

}  // namespace rlxc
