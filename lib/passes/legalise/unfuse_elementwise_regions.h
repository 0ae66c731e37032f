// The inverse of mark_elementwise_regions: regions that the target cannot run (it has none, or smaller limits) become their
// steps again as ordinary nodes. O(steps).
#pragma once
#include "passes/pass.h"

namespace rlxc {

// One ElementwiseRegion or NormRegion: the values that replace its results, or none if a step does not type-check. Nodes go
// before `n`.
std::vector<ValueId> unfuse_region(Graph&, NodeId n);

}  // namespace rlxc
