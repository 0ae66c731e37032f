// Functions without a C operator, on scalars and vectors: min and max that propagate NaN, division that cannot trap, saturating
// casts, half floats, and exp, log, tanh, erf on vectors by polynomials.
#pragma once
#include "backend/c/c_like.h"

namespace rlxc::target {

// Each adds the C function of an operator or cast to the helpers and returns its name.
std::string cpu_function(const CLike&, ExprOp, Type operand, Helpers&);
// Adds the function of an operator of moves_lanes() and its payload.
std::string cpu_move_lanes(const CLike&, ExprOp, Type, int group, Helpers&);
// Adds the function of a and b that returns b where a < b, else a; empty if the vectors have no instruction for it.
std::string cpu_larger(const CLike&, Type, Helpers&);
std::string cpu_cast(const CLike&, Type to, Type from, Helpers&);
// Casts the value to `middle` and the result to `to` without forming the narrow integers; empty if that is not possible.
std::string cpu_cast_through(const CLike&, Type to, Type middle, Type from, const std::string& value, Helpers&);
// Adds the function that rounds to the nearest integer, half to even, and casts the result; empty if it has no shorter form.
std::string cpu_rounding_cast(const CLike&, Type to, Type from, Helpers&);

}  // namespace rlxc::target
