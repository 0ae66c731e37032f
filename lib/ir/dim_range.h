// Interval arithmetic on dims, given ranges of symbols, and substitution of symbols.
#pragma once
#include <map>
#include <optional>
#include <string>

#include "ir/dim.h"

namespace rlxc {

// Nullopt: unbounded on this side. Symbols in the bounds are at least 1.
struct DimRange {
  std::optional<Dim> low, high;
};

DimRange exactly(Dim);
std::optional<Dim> exact_value(const DimRange&);  // if both bounds are equal

// Interval arithmetic. Unbounded results are nullopt.
DimRange add(DimTable&, const DimRange&, const DimRange&);
DimRange subtract(DimTable&, const DimRange&, const DimRange&);
DimRange multiply(DimTable&, const DimRange&, const DimRange&);
DimRange floor_divide(DimTable&, const DimRange&, const DimRange&);
DimRange modulo(DimTable&, const DimRange&, const DimRange&);
DimRange minimum(DimTable&, const DimRange&, const DimRange&);
DimRange maximum(DimTable&, const DimRange&, const DimRange&);
DimRange join(DimTable&, const DimRange&, const DimRange&);  // union of both ranges

using SymbolRanges = std::map<std::string, DimRange, std::less<>>;
using SymbolValues = std::map<std::string, Dim, std::less<>>;

// Symbols without an entry represent themselves. O(length of the text of the expression).
DimRange range_of(DimTable&, Dim, const SymbolRanges&);
Dim substitute(DimTable&, Dim, const SymbolValues&);

}  // namespace rlxc
