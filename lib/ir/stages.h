// Which devices compute a node. A program sends values from one stage of a pipeline to others (collective_permute along a mesh
// axis): a device needs only those nodes whose results reach an output through its own stage. What no rule can tell is needed by
// all devices.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "ir/mesh.h"

namespace rlxc {

struct Stages {
  static constexpr int64_t kMost = 32;
  static constexpr uint32_t kAll = ~uint32_t{0};
  size_t axis = 0;           // of the mesh; the position of a device along it is its stage
  int64_t count = 1;         // size of the axis
  std::vector<uint32_t> of;  // by node; bit s: the devices of stage s compute it. kAll: every device
  uint32_t stages(NodeId n) const { return of[n.raw]; }
  // Whether the devices of a stage compute the node.
  bool computes(int64_t stage, NodeId n) const { return of[n.raw] >> stage & 1; }
};

// Nullopt if every device computes every node. O(nodes + operands).
std::optional<Stages> stages_of(const Graph&);

}  // namespace rlxc
