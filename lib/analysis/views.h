// Finds results that alias existing bytes: reshapes, slices, transposes and nearest-neighbour enlargements. A view that is not
// row-major is formed only if all its users accept its strides.
#pragma once
#include <optional>
#include <vector>

#include "ir/layout.h"

namespace rlxc {

struct View {
  ValueId of;  // operand 0
  Dim byte_offset;
};

// Returns whether this use accepts its operand in layout `l`: strided, or with permuted axes. `lanes`: of assign_layouts.
bool accepts_layout(const Graph&, Graph::Use, const Layout&, int64_t lanes = 0);
// Returns whether every user of v, or of views of v, accepts v in layout `l`. O(uses); the number of visited uses is bounded.
bool all_accept_layout(const Graph&, ValueId v, const Layout&, int64_t lanes = 0);
// Returns whether the matmul can write its result, and read a residual, in this layout.
bool can_write_layout(const Graph&, NodeId matmul, const Layout&);
// The layout of v for which `moved`, the result of Reshapes and Transposes of v, is row-major, or has the layout of the last
// argument. Nullopt if elements must be copied.
std::optional<Layout> layout_before(const Graph&, ValueId v, ValueId moved);
std::optional<Layout> layout_before(const Graph&, ValueId v, ValueId moved, Layout);
// The layout of v if it is a view, or is written in its consumer's layout, and is not row-major; nullopt otherwise. O(rank +
// uses); the number of visited uses is bounded. `lanes`: as for assign_layouts; 1 asks for layouts that all targets read.
std::optional<Layout> layout_in_larger(const Graph&, ValueId v, int64_t lanes = 1);

// The view that the first result of the node is, or nullopt if the node moves or computes bytes. O(rank + uses).
std::optional<View> view_of(const Graph&, NodeId);

// Views and layouts of all values. Memory planning and code generation read the result from GraphPlan::layouts. `lanes`: f32
// elements of a vector, if kernels read images whose channels are in blocks (channel_blocks.h) and are for threads of a CPU; else
// 0. O(values).
GraphLayouts assign_layouts(const Graph&, int64_t lanes = 0);

}  // namespace rlxc
