// Bounds of sizes: between which sizes an expression lies when some of its symbols are only known to lie between two others, and
// expressions with symbols replaced by others.
#pragma once
#include <map>
#include <optional>
#include <string>

#include "ir/dim.h"

namespace rlxc {

// Absent: not bounded on that side. Symbols of the bounds are at least 1.
struct DimRange {
  std::optional<Dim> low, high;
};

DimRange exactly(Dim);
std::optional<Dim> exact_value(const DimRange&);  // where both bounds are the same

// Interval arithmetic; what cannot be bounded is absent.
DimRange add(DimTable&, const DimRange&, const DimRange&);
DimRange subtract(DimTable&, const DimRange&, const DimRange&);
DimRange multiply(DimTable&, const DimRange&, const DimRange&);
DimRange floor_divide(DimTable&, const DimRange&, const DimRange&);
DimRange modulo(DimTable&, const DimRange&, const DimRange&);
DimRange minimum(DimTable&, const DimRange&, const DimRange&);
DimRange maximum(DimTable&, const DimRange&, const DimRange&);
DimRange join(DimTable&, const DimRange&, const DimRange&);  // holds for either

using SymbolRanges = std::map<std::string, DimRange, std::less<>>;
using SymbolValues = std::map<std::string, Dim, std::less<>>;

// Symbols that are not in the map stand for themselves. O(length of the text of the expression).
DimRange range_of(DimTable&, Dim, const SymbolRanges&);
Dim substitute(DimTable&, Dim, const SymbolValues&);

}  // namespace rlxc
