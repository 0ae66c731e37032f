// The inverse of mark_elementwise_regions: splits regions that the target cannot run (no regions, or smaller limits) into
// ordinary nodes. O(steps).
#pragma once
#include "passes/pass.h"

namespace rlxc {

// Splits one ElementwiseRegion or NormRegion. Returns the values that replace its results, or none if a step does not type-check.
// Inserts nodes before `n`.
std::vector<ValueId> unfuse_region(Graph&, NodeId n);

}  // namespace rlxc
