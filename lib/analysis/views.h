// Which results are other names for bytes that already exist: reshapes, slices, transposes, and images that are enlarged by
// repeating pixels. What is not row-major there is one where all its readers can step over what lies between.
#pragma once
#include <optional>
#include <vector>

#include "ir/graph.h"

namespace rlxc {

struct View {
  ValueId of;  // operand 0
  Dim byte_offset;
};

// How an axis lies in memory: split into pieces, outermost first, each with so many elements from one position to the next (0
// where it is repeated). An axis of size 1 may have none.
struct Piece {
  Dim size, stride;
  bool operator==(const Piece&) const = default;
};
struct Layout {
  std::vector<std::vector<Piece>> axes;
  std::vector<Dim> starts = {};  // by axis, which position of its pieces is the first one; none: 0

  bool rows() const;     // elements of the last axis lie together
  bool vectors() const;  // or are some of them repeated
  Dim start(size_t axis) const { return axis < starts.size() ? starts[axis] : Dim(0); }
  bool split(size_t last = SIZE_MAX) const;  // one of so many last axes has several pieces
  bool operator==(const Layout&) const = default;
};

// The last of the first `end` axes that follow each other in memory in one step, as the pieces of one axis would: where they
// begin, and this axis (of size 1: none). An axis of several pieces is no part of it.
struct Run {
  size_t begin;
  std::optional<Piece> piece;
};
Run last_run(DimTable&, const Layout&, size_t end);
Layout row_major(DimTable&, std::span<const Dim> shape);

// Can this reader take its operand as it lies in a larger value, or with its axes in another order?
bool takes_layout(const Graph&, Graph::Use, const Layout&);
bool takes_strides(const Graph&, Graph::Use);  // whatever the strides between rows are
// Can the product make a result, and read a residual, that lies so?
bool product_ends_in(const Graph&, NodeId product, const Layout&);
// How v lies if `moved`, which it becomes by Reshapes and Transposes alone, is row-major. Nothing where elements would have to be
// moved.
std::optional<Layout> layout_before(const Graph&, ValueId v, ValueId moved);
// How v lies, where it is sliced, reordered, reshaped or repeated from a value that it lies in and is not row-major. Nothing for
// all others. O(rank + uses) for a bounded number of uses.
std::optional<Layout> layout_in_larger(const Graph&, ValueId v);

// The view that the node's first result is, or nullopt if it moves or computes bytes. O(rank + uses).
std::optional<View> view_of(const Graph&, NodeId);

// For every value the value that owns its bytes (itself unless a view) and the offset into it, in bytes. O(values).
struct ViewRoots {
  std::vector<ValueId> root;  // by value
  std::vector<Dim> offset;    // by value
};
ViewRoots resolve_views(const Graph&);

}  // namespace rlxc
