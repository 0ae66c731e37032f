// A cheap value that lives where much else does, only to be read again later, can be computed a second time where it is read
// ("Training Deep Nets with Sublinear Memory Cost", Chen et al., arXiv 1604.06174). Gradients read most of what the forward part
// of a graph has made; without them, what is left to wait is mostly made by matmuls and convolutions, which are not cheap. Where
// only a part of such a value is read later, a copy of the part can wait in its place.
#pragma once
#include <cstdint>
#include <set>
#include <vector>

#include "ir/lir.h"

namespace rlxc {

enum class Instead : uint8_t { Compute, CopyParts };  // of keeping a value

struct ComputedAgain {
  struct Edit {
    NodeId user;
    uint32_t index;
    ValueId before;
  };
  std::vector<NodeId> copies;
  std::vector<Edit> edits;      // operands that are results of copies now
  std::vector<ValueId> values;  // that are computed again
};

// Nodes are copied to before the first reader of a value behind a gap in which it is not read, for all its readers behind it,
// until no step needs more than `limit` bytes or `most` values are computed again: each time the value with the most bytes saved,
// above the limit, for an element computed. What it is made of is read there, too: as it is, if it lives or is small, else it is
// computed again itself. The nodes of the graph must be in the order of the plan's schedule; the plan is stale then. Values of
// `refused` are left alone. O(most * values * steps above the limit).
// Parts are copied behind the last reader before the gap.
ComputedAgain compute_again(Graph&, const GraphPlan&, Instead, uint64_t limit, size_t most, const std::set<ValueId>& refused);

void undo(Graph&, const ComputedAgain&);  // takes the copies back

// Views of values that are computed again may have lost their readers to views of the copies.
void erase_unread_views(Graph&, const GraphPlan&);

}  // namespace rlxc
