// Finds keys and values of which several queries' heads read the same ones. Exporters repeat them by Expand and fold the repeated
// axis into that of the heads by Reshape. A kernel that broadcasts reads each of them once.
#pragma once
#include <optional>
#include <vector>

#include "ir/builder.h"

namespace rlxc::fuse {

// An Expand along one axis, and the Reshapes and Transposes after it.
struct RepeatedHeads {
  NodeId expand;
  std::vector<NodeId> moves;  // in execution order
  std::vector<size_t> axes;   // the axis that holds the repetitions, after the Expand and after each move
  Dim times;
};

// The repetition of the matrices of `v`, its last two axes, each in turn along the axis before them. O(axes of the chain).
std::optional<RepeatedHeads> repeated_heads(const Graph&, ValueId v);

// The same matrices once. The axis before them is shorter.
ValueId distinct_heads(Builder&, const RepeatedHeads&);

}  // namespace rlxc::fuse
