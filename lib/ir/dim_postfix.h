// Renders a dim in postfix form, for a stack evaluator, or as Python.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "ir/dim.h"

namespace rlxc {

// Numbers, "$symbol", named sizes "#0", and the binary operators + * floordiv mod min max. O(length of the text).
std::vector<std::string> dim_postfix(const DimTable&, Dim);
std::vector<std::string> terms_postfix(const DimTable&, Dim);       // of DimTable::terms
std::vector<std::string> definition_postfix(const DimTable&, Dim);  // of the definition of a named size

// The name of the symbol if the dim is a single symbol.
std::optional<std::string> symbol_name(const DimTable&, Dim);

// A Python expression. Symbols are looked up in the dictionary `symbols`; parts that are nested deeply get the names _0, _1, ...
// Named sizes are calls `size(symbols, 0)`.
std::string dim_python(const DimTable&, Dim, const std::string& symbols);
// The definition of a named size. Those that it mentions are looked up in the dictionary `named`.
std::string definition_python(const DimTable&, Dim, const std::string& symbols, const std::string& named);
// The number in the name of a named size.
std::string name_number(const DimTable&, Dim);

}  // namespace rlxc
