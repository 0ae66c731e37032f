// Batching: a graph that computes for one sample becomes one that computes for many at once, along a new axis. What does not
// depend on a batched input is computed once and shared.
#pragma once
#include <optional>

#include "transform/expansion.h"

namespace rlxc::transform {

using BatchAxis = std::optional<int64_t>;  // where an input has the new axis; absent: it is shared

// The inputs of the main graph with an axis get one more of this size there; every output gets one in front. Input and output
// names and their order stay. False after errors: operations that cannot be batched are each named.
// O(nodes of the graph + nodes made).
bool batch_main(Module&, std::span<const BatchAxis>, Dim size, Expand, Diagnostics&);

}  // namespace rlxc::transform
