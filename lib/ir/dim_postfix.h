// A size for an evaluator with a stack, or for another language.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "ir/dim.h"

namespace rlxc {

// Numbers, "$" and a symbol, and operators of two operands: + * floordiv mod min max. O(length of the text).
std::vector<std::string> dim_postfix(const DimTable&, Dim);

// Of a size that is nothing but a symbol.
std::optional<std::string> symbol_name(const DimTable&, Dim);

// As an expression of Python: symbols are members of the dictionary `symbols`.
std::string dim_python(const DimTable&, Dim, const std::string& symbols);

}  // namespace rlxc
