// Rematerialisation (Chen et al., "Training Deep Nets with Sublinear Memory Cost", arXiv 1604.06174): a cheap value that is live
// across the peak only for a later read is computed again before that read. This helps gradients most, which read forward
// activations. If only a part of a value is read later, a copy of the part can replace it.
#pragma once
#include <cstdint>
#include <limits>
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

struct Allowance {
  uint64_t arena = 0;                                        // bytes that every step may need
  size_t most = std::numeric_limits<size_t>::max();          // values computed again
  double work_ns = std::numeric_limits<double>::infinity();  // estimated time of the copies (analysis/cost.h)
  bool contractions = false;                                 // whether matmuls, convolutions and attention may be copied
};

// Copies nodes before the first reader behind a gap in the reads of a value, until no step needs more than the arena allowed or
// the allowance is spent. Each round takes the value with the most bytes saved above the limit per element computed, or, if
// contractions may be copied, per estimated time. Operands of a copy are read if live or small, otherwise copied too. CopyParts
// inserts copies after the last reader before the gap. Nodes must be in schedule order; the plan is stale afterwards. Skips
// values of `refused`. O(values * steps above the limit).
ComputedAgain compute_again(Graph&, const GraphPlan&, Instead, const Allowance&, const std::set<ValueId>& refused = {});

void undo(Graph&, const ComputedAgain&);  // removes the copies

// The node that computes the first result of a node again: its own kind, or for a fused residual norm, whose second result is the
// sum, the norm of that.
struct Recipe {
  OpKind op;
  std::vector<ValueId> operands;
};
Recipe recipe_of(const Graph&, NodeId);
inline bool is_residual_norm(OpKind op) { return op == OpKind::FusedResidualLN || op == OpKind::FusedResidualRmsNorm; }

// Erases nodes left without users because all of their readers read copies.
void erase_unread(Graph&, const GraphPlan&);

}  // namespace rlxc
