// Checkpointing of activations (Chen et al., "Training Deep Nets with Sublinear Memory Cost", arXiv 1604.06174): a program whose
// second half reads what the first half computed, such as a gradient, needs memory for all of it at its peak. The first half is
// cut into segments where little is live; what crosses a cut is kept, and the rest of a segment is computed again, whatever it
// costs, right before its first reader in the second half.
#pragma once
#include "memory/rematerialise.h"

namespace rlxc {

// About `segments` segments, with equal bytes of what the second half reads. The last one is kept whole. No copies if there is
// nothing to gain. Nodes must be in schedule order; the plan is stale afterwards. O(nodes).
ComputedAgain compute_segments_again(Graph&, const GraphPlan&, uint64_t segments);

}  // namespace rlxc
