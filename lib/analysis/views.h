// Which results are other names for bytes that already exist: reshapes, contiguous slices, transposes of size-1 axes.
#pragma once
#include <optional>

#include "ir/graph.h"

namespace rlxc {

struct View {
  ValueId of;           // operand 0
  Dim byte_offset;
};

// The view that the node's first result is, or nullopt if it moves or computes bytes. O(rank).
std::optional<View> view_of(const Graph&, NodeId);

// For every value the value that owns its bytes (itself unless a view) and the offset into it, in bytes. O(values).
struct ViewRoots {
  std::vector<ValueId> root;     // by value
  std::vector<Dim> offset;       // by value
};
ViewRoots resolve_views(const Graph&);

}  // namespace rlxc
