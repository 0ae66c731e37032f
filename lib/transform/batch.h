// Batching: a graph that computes for one sample becomes one that computes for many at once, along a new axis. What does not
// depend on a batched input is computed once and shared.
#pragma once
#include <optional>

#include "transform/gradients.h"

namespace rlxc::transform {

using BatchAxis = std::optional<int64_t>;  // where an input has the new axis; absent: it is shared

// The inputs of the main graph with an axis get one more of this size there; every output gets one in front. Input and output
// names and their order stay. False after errors: operations that cannot be batched are each named.
// O(nodes of the graph + nodes made).
bool batch_main(Module&, std::span<const BatchAxis>, Dim size, Expand, Diagnostics&);

// The value that is the same for all samples, or has an axis for them in front.
struct Batched {
  ValueId v;
  bool has_axis = false;
};

// What the outputs of `body` are when the builder's graph computes it on `inputs`; inputs for each of its inputs. Empty after
// errors.
std::vector<Batched> batched_body(Builder&, GraphId body, std::span<const Batched> inputs, Dim size, Expand, Diagnostics&);

}  // namespace rlxc::transform
