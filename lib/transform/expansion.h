// A node in simpler operations, for transforms that have no rule for it.
#pragma once
#include <vector>

#include "transform/gradients.h"

namespace rlxc::transform {

// The results of the node `n` of `from`, computed again from `operands` by its simpler form where the builder places nodes. Empty
// if it has none.
std::vector<ValueId> expanded(Builder&, const Graph& from, NodeId n, std::span<const ValueId> operands, Expand);

}  // namespace rlxc::transform
