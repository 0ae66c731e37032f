// Merges connected elementwise nodes into ElementwiseRegion nodes, each one launch that keeps interior values in registers.
// Going backwards, a node joins the region of its users when all of them are in one region: so a region has one result, and no
// path can leave it and come back. A region ends at the target's limits of steps and operands; what is beyond starts another.
// A node that costs little joins the region of each of its users as a copy. An interior value that is smaller than the region's
// result would be computed again for every element: it joins only if it is cheap and stands at the edge. What depends on
// parameters and constants only is computed once at load time and stays out. Every merge and every refusal is a decision.
// Runs after precision was chosen: casts are steps. O(nodes + uses).
#pragma once
#include "passes/pass.h"

namespace rlxc {

PassResult mark_elementwise_regions(Module&, PassContext&);

}  // namespace rlxc
