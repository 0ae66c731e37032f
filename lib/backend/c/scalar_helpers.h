// Scalar functions with the same text in C, C++, CUDA, HIP and MSL: min and max that propagate NaN, division that cannot trap,
// shifts, narrow integer arithmetic, saturating casts.
#pragma once
#include "backend/c/c_like.h"

namespace rlxc::target {

// Returns "($T a, $T b) { return ...; }" with $T the type; null if the language or its library has the operator.
const char* scalar_definition(ExprOp, DType);

// Literals of a saturating cast: floats from `upper` on become `most`, floats below `lower` become `least`.
struct CastBounds {
  std::string upper, lower, most, least;
};
CastBounds cast_bounds(const CLike&, DType to, DType from);

// Each adds a function "`qualifiers` result name(...)" with one of these definitions and returns its name.
std::string add_scalar_function(const CLike&, std::string_view qualifiers, ExprOp, DType, Helpers&);
std::string add_saturating_cast(const CLike&, std::string_view qualifiers, DType to, DType from, Helpers&);

// Returns the result type of an operator on operands of type t.
Type result_type(ExprOp, Type t);

}  // namespace rlxc::target
