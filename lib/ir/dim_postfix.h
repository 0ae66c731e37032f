// Renders a dim in postfix form, for a stack evaluator, or as Python.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "ir/dim.h"

namespace rlxc {

// Numbers, "$symbol", and the binary operators + * floordiv mod min max. O(length of the text).
std::vector<std::string> dim_postfix(const DimTable&, Dim);

// The name of the symbol if the dim is a single symbol.
std::optional<std::string> symbol_name(const DimTable&, Dim);

// A Python expression. Symbols are looked up in the dictionary `symbols`; parts that are nested deeply get the names _0, _1, ...
std::string dim_python(const DimTable&, Dim, const std::string& symbols);

}  // namespace rlxc
