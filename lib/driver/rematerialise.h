// A cheap value that lives through the peak only to be read again later can be computed a second time where it is read ("Training
// Deep Nets with Sublinear Memory Cost", Chen et al., arXiv 1604.06174).
#pragma once
#include <vector>

#include "ir/lir.h"

namespace rlxc {

// Values of cheap nodes that live at the peak of a static plan, made before it, and read only after it: largest first.
std::vector<ValueId> values_to_compute_again(const Graph&, const GraphPlan&);

// A copy of the value's node before its first reader after the peak, for all readers after it. The plan is stale then.
NodeId compute_again(Graph&, const GraphPlan&, ValueId);

// Takes the copy back.
void undo_compute_again(Graph&, NodeId copy, ValueId original);

}  // namespace rlxc
