// A size for an evaluator with a stack, or for another language.
#pragma once
#include <string>
#include <vector>

#include "ir/dim.h"

namespace rlxc {

// Numbers, "$" and a symbol, and operators of two operands: + * floordiv mod min max. O(length of the text).
std::vector<std::string> dim_postfix(const DimTable&, Dim);

// As an expression of Python: symbols are members of the dictionary `symbols`.
std::string dim_python(const DimTable&, Dim, const std::string& symbols);

}  // namespace rlxc
