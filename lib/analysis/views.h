// Which results are other names for bytes that already exist: reshapes, slices, transposes. What is not row-major there is one
// where all its readers can step over what lies between.
#pragma once
#include <optional>
#include <vector>

#include "ir/graph.h"

namespace rlxc {

struct View {
  ValueId of;  // operand 0
  Dim byte_offset;
};

// Can this reader take its operand as it lies in a larger value, or with its axes in another order? `rows`: elements of the last
// axis lie together.
bool takes_strides(const Graph&, Graph::Use, bool rows = true);
// Elements from one position of each axis of v to the next, where v is sliced, reordered or reshaped from a value that it lies in
// and is not row-major. Nothing for all others. O(rank + uses) for a bounded number of uses.
std::optional<std::vector<Dim>> strides_in_larger(const Graph&, ValueId v);

// The view that the node's first result is, or nullopt if it moves or computes bytes. O(rank + uses).
std::optional<View> view_of(const Graph&, NodeId);

// For every value the value that owns its bytes (itself unless a view) and the offset into it, in bytes. O(values).
struct ViewRoots {
  std::vector<ValueId> root;  // by value
  std::vector<Dim> offset;    // by value
};
ViewRoots resolve_views(const Graph&);

}  // namespace rlxc
