// Small scalar functions that C, C++, CUDA, HIP and MSL all need and can share the text of: min and max that propagate NaN,
// division that can't trap, shifts, arithmetic of narrow integers, casts that saturate.
#pragma once
#include "backend/c/c_like.h"

namespace rlxc::target {

// "($T a, $T b) { return ...; }" with $T the type, or null where the language or its library has the operator.
const char* scalar_definition(ExprOp, DType);

// Adds a function "`qualifiers` result name(...)" with one of these definitions and returns its name.
std::string add_scalar_function(const CLike&, std::string_view qualifiers, ExprOp, DType, Helpers&);
std::string add_saturating_cast(const CLike&, std::string_view qualifiers, DType to, DType from, Helpers&);

// The type that an operator gives for operands of type t.
Type result_type(ExprOp, Type t);

}  // namespace rlxc::target
