// Which results are other names for bytes that already exist: reshapes, slices, transposes, and images that are enlarged by
// repeating pixels. What is not row-major there is one where all its readers can step over what lies between.
#pragma once
#include <optional>
#include <vector>

#include "ir/layout.h"

namespace rlxc {

struct View {
  ValueId of;  // operand 0
  Dim byte_offset;
};

// Can this reader take its operand as it lies in a larger value, or with its axes in another order?
bool takes_layout(const Graph&, Graph::Use, const Layout&);
bool takes_strides(const Graph&, Graph::Use);  // whatever the strides between rows are
// Can the matmul make a result, and read a residual, that lies so?
bool can_write_layout(const Graph&, NodeId matmul, const Layout&);
// How v lies if `moved`, which it becomes by Reshapes and Transposes alone, is row-major. Nothing where elements would have to be
// moved.
std::optional<Layout> layout_before(const Graph&, ValueId v, ValueId moved);
// How v lies, where it is sliced, reordered, reshaped or repeated from a value that it lies in and is not row-major. Nothing for
// all others. O(rank + uses) for a bounded number of uses.
std::optional<Layout> layout_in_larger(const Graph&, ValueId v);

// The view that the node's first result is, or nullopt if it moves or computes bytes. O(rank + uses).
std::optional<View> view_of(const Graph&, NodeId);

// Views and layouts of all values of the graph as it is. Memory planning and code generation read them from the plan
// (GraphPlan::layouts). O(values).
GraphLayouts assign_layouts(const Graph&);

}  // namespace rlxc
