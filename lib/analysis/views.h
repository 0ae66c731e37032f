// Which results are other names for bytes that already exist: reshapes, contiguous slices, parts of rows for readers that step
// over the rest of each row, transposes of size-1 axes.
#pragma once
#include <optional>

#include "ir/graph.h"

namespace rlxc {

struct View {
  ValueId of;  // operand 0
  Dim byte_offset;
};

// Can this reader step over what else lies in each row of a wider value?
bool takes_rows_at_a_distance(const Graph&, Graph::Use);

// Is the node a part of each row of its operand, that only operations read which take rows at any distance? Then it is a view.
// O(rank + uses).
bool is_row_part(const Graph&, NodeId);
// Elements from one row (position of the last axis) of v to the next: its last size, or that of the value it is a row part of.
Dim row_distance(const Graph&, ValueId v);

// The view that the node's first result is, or nullopt if it moves or computes bytes. O(rank + uses).
std::optional<View> view_of(const Graph&, NodeId);

// For every value the value that owns its bytes (itself unless a view) and the offset into it, in bytes. O(values).
struct ViewRoots {
  std::vector<ValueId> root;  // by value
  std::vector<Dim> offset;    // by value
};
ViewRoots resolve_views(const Graph&);

}  // namespace rlxc
