// Finds the data-dependent dims of a module, the nodes that define them and their upper bounds. Sources: NonZero, Unique,
// NonMaxSuppression, Iota, ReshapeTo, carried values of a Loop whose shape changes, trip counts, and dims that differ between the
// branches of an If.
#pragma once
#include <vector>

#include "ir/dim_range.h"
#include "ir/lir.h"

namespace rlxc {

// Returns the dims in order of definition. A symbol that the module requires to be equal to known ones is replaced in all types
// and attributes. `given`: bounds promised by the user. O(nodes + symbols * (loop depth + 1)).
std::vector<DataDependentDim> find_data_dependent_dims(Module&, const DimBindings& given);

// The ranges of the bounded symbols.
SymbolRanges data_dependent_ranges(const std::vector<DataDependentDim>&);
// The upper bound of a dim under these ranges, or the dim itself if it has none.
Dim largest(DimTable&, Dim, const SymbolRanges&);
Dim dense_bytes(DimTable&, const Type&);  // bytes of a packed tensor; 0 for other types

}  // namespace rlxc
