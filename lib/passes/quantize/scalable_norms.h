// Norms whose channels can be scaled: each reader is a matmul whose weight can take the inverse factor.
#pragma once
#include <vector>

#include "ir/graph.h"

namespace rlxc {

struct ScalableNorm {
  NodeId norm;                  // a LayerNorm or RmsNorm of the last axis, of static size
  std::vector<NodeId> matmuls;  // its readers, by constant weights of two axes
};

// In execution order. O(nodes + readers of norms).
std::vector<ScalableNorm> scalable_norms(const Graph&);

}  // namespace rlxc
