// A nearest Resize by whole factors repeats the positions of its operand: a strided layout describes the result.
#pragma once
#include <optional>
#include <vector>

#include "ir/graph.h"

namespace rlxc {

// How many times a nearest Resize repeats each position, by axis. Nullopt for other nodes, and if a factor is not known to be a
// whole number. O(rank).
std::optional<std::vector<int64_t>> repeat_factors(const Graph&, NodeId);

}  // namespace rlxc
