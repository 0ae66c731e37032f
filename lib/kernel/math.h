// Math functions defined in the kernel language, for targets and vector types that lack them. Each is an expression over add,
// mul, fma, select and bit operations. f32 only. Relative error below 2e-7 for exp, exp2, log, tanh, expm1, log1p, 1e-5 for pow;
// absolute error below 5e-7 for erf, 2e-7 for sin and cos of arguments up to 8192. Sources: Cephes (Moshier) for log, sin, cos,
// asin, acos, atan and exp's range reduction; Eigen and XLA for the rational forms of erf and tanh.
#pragma once
#include "kernel/language.h"

namespace rlxc::kernel {

// Exp, Exp2, Log, Sin, Cos, Tan, Asin, Acos, Atan, Tanh, Erf, Expm1, Log1p, Pow, IsNan, IsInf.
bool has_definition(ExprOp);

// Returns a kernel whose symbols are the operands (f32 with these lanes) and whose last statement stores the result to its only
// buffer. Simplified. Its operators may need a definition themselves (log1p uses log).
Kernel define(ExprOp, Type);

}  // namespace rlxc::kernel
