// Conversion between elementwise nodes and steps of an elementwise region.
#pragma once
#include "ir/graph.h"

namespace rlxc {

// Returns whether the node can be a step: elementwise on f32, f64, f16, bf16, bool or whole-byte integers.
bool can_be_step(const Graph&, NodeId);
RegionStep make_step(const Graph&, NodeId);  // its first arguments are operands 0, 1, ... of the node
RegionStep core_step(const Graph&, NodeId);  // of a QMatMul or a QConv, whose operands are those of the fused node
Attrs attrs_of_step(const RegionStep&);
size_t argument_count(const RegionStep&);

}  // namespace rlxc
