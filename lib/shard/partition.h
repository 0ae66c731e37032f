// Rewrites a graph to the program of one device: values have their local types, and collectives exchange what devices need of
// each other. All devices run the same program; inputs and outputs are whole on every device.
#pragma once
#include "shard/propagate.h"

namespace rlxc::shard {

// Rewrites the main graph. A node whose operands or results are split becomes the same node on the parts of this device, where
// its rule allows it; else every device computes it whole. Returns whether it changed anything. O(nodes + operands).
bool partition(Graph&, const Shardings&);

}  // namespace rlxc::shard
