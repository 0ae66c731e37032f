// Conversion between elementwise nodes and steps of an elementwise region.
#pragma once
#include "ir/graph.h"

namespace rlxc {

// Returns whether the node can be a step: elementwise on f32, f64, f16, bf16, bool or whole-byte integers.
bool can_be_step(const Graph&, NodeId);
// The step without arguments.
RegionStep make_step(const Graph&, NodeId);
Attrs attrs_of_step(const RegionStep&);
size_t argument_count(const RegionStep&);

}  // namespace rlxc
