// Functions that C has no operator for, on scalars and vectors: min and max that propagate NaN, division that can't trap,
// saturating casts, half floats, and exp, log, tanh, erf on vectors by polynomials.
#pragma once
#include "backend/c/c_like.h"

namespace rlxc::target {

// The name of a C function for this operator or cast; its definition is added to the helpers.
std::string cpu_function(const CLike&, ExprOp, Type operand, Helpers&);
std::string cpu_cast(const CLike&, Type to, Type from, Helpers&);

}  // namespace rlxc::target
