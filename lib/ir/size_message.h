// The message about a size that a model requires and the inputs do not have.
#pragma once
#include <string>

#include "ir/graph.h"

namespace rlxc {

// `a` and `b` must be equal, and are x and y. Where b is a symbol and a its minimum with a number, the number is a limit of it.
std::string unequal_sizes(const DimTable&, Dim a, Dim b, int64_t x, int64_t y);

// `node "NAME" (Kind)`: the first node that refuses its operands when symbols have these sizes, or an empty string. O(nodes).
std::string refusing_node(const Module&, const DimBindings&);

}  // namespace rlxc
