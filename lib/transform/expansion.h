// A node in simpler operations, for transforms that have no rule for it.
#pragma once
#include <span>
#include <vector>

#include "ir/builder.h"

namespace rlxc::transform {

// The results of a node, written with simpler operations before it; empty if there is no such form. What has no rule is
// differentiated and batched in that form.
using Expand = std::vector<ValueId> (*)(Graph&, NodeId);

// The results of the node `n` of `from`, computed again from `operands` by its simpler form where the builder places nodes. Empty
// if it has none.
std::vector<ValueId> expanded(Builder&, const Graph& from, NodeId n, std::span<const ValueId> operands, Expand);

}  // namespace rlxc::transform
