// The messages about sizes that a model requires and the inputs do not have, or do not determine.
#pragma once
#include <span>
#include <string>

#include "ir/bind_dims.h"
#include "ir/graph.h"

namespace rlxc {

// `a` and `b` must be equal, and are x and y. Where b is a symbol and a its minimum with a number, the number is a limit of it.
std::string unequal_sizes(const DimTable&, Dim a, Dim b, int64_t x, int64_t y);

// unequal_sizes of the first recorded equality that does not hold for these sizes, or an empty string. O(equalities).
std::string unmet_equality(const DimTable&, const DimBindings&);

// Names the first symbol of the dims of inputs that `bindings`, what solve_dims found, lack. Empty where they lack none.
std::string undetermined_size(const DimTable&, std::span<const KnownSize>, const DimBindings&);

// `node "NAME" (Kind)`: the first node that refuses its operands when symbols have these sizes, or an empty string. O(nodes).
std::string refusing_node(const Module&, const DimBindings&);

}  // namespace rlxc
