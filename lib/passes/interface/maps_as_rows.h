// Column keys of the tensors that maps_as_rows creates, for the host.
#pragma once
#include <optional>
#include <vector>

#include "ir/graph.h"

namespace rlxc {

// For each output of the main graph that maps_as_rows replaces by a tensor: the keys of its columns, in order. O(outputs + keys
// log keys).
std::vector<std::optional<MapKeysAttrs>> map_columns(const Module&);

}  // namespace rlxc
