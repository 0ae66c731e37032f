// Rematerialisation (Chen et al., "Training Deep Nets with Sublinear Memory Cost", arXiv 1604.06174): a cheap value that is live
// across the peak only for a later read is computed again before that read. This helps gradients most, which read forward
// activations. If only a part of a value is read later, a copy of the part can replace it.
#pragma once
#include <cstdint>
#include <set>
#include <vector>

#include "ir/lir.h"

namespace rlxc {

enum class Instead : uint8_t { Compute, CopyParts };  // what replaces a long live range

struct ComputedAgain {
  struct Edit {
    NodeId user;
    uint32_t index;
    ValueId before;
  };
  std::vector<NodeId> copies;
  std::vector<Edit> edits;      // operands replaced by results of copies
  std::vector<ValueId> values;  // values computed again
};

// Copies nodes before the first reader behind a gap in the reads of a value, until no step needs more than `limit` bytes or
// `most` values are computed again. Each round takes the value with the most bytes saved above the limit per element computed.
// Operands of a copy are read if live or small, otherwise copied too. CopyParts inserts copies after the last reader before the
// gap. Nodes must be in schedule order; the plan is stale afterwards. Skips values of `refused`. O(most * values * steps above
// the limit).
ComputedAgain compute_again(Graph&, const GraphPlan&, Instead, uint64_t limit, size_t most, const std::set<ValueId>& refused);

void undo(Graph&, const ComputedAgain&);  // removes the copies

// Erases nodes left without users because all of their readers read copies.
void erase_unread(Graph&, const GraphPlan&);

}  // namespace rlxc
