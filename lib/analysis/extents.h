// Data-dependent dims: which node defines each of them, and how large they can get. A result of NonZero, Unique,
// NonMaxSuppression or Iota, carried values of a loop that change their shape, the number of iterations, and what differs
// between the branches of an If have such sizes: symbols that are in no input.
#pragma once
#include <vector>

#include "ir/dim_range.h"
#include "ir/lir.h"

namespace rlxc {

// The symbols in the order of their definition. Symbols that the module only knows to be equal to others are replaced by these,
// in all types and attributes. `given` are bounds that the user promises. O(nodes + symbols * (loops around them + 1)).
std::vector<DataDependentDim> find_extents(Module&, const DimBindings& given);

// What the symbols of extents lie between, and the largest value of a size (itself, where it has no bound).
SymbolRanges extent_ranges(const std::vector<DataDependentDim>&);
Dim largest(DimTable&, Dim, const SymbolRanges&);
Dim dense_bytes(DimTable&, const Type&);  // of a tensor's elements; 0 for other types

}  // namespace rlxc
