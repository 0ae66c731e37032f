// The pass maps_as_rows, for the host: what the columns of its tensors are.
#pragma once
#include <optional>
#include <vector>

#include "ir/graph.h"

namespace rlxc {

// The keys of the columns, in their order, for each output of the main graph that is a sequence of maps made of rows: the outputs
// that maps_as_rows replaces by tensors. O(outputs + keys log keys).
std::vector<std::optional<MapKeysAttrs>> map_columns(const Module&);

}  // namespace rlxc
