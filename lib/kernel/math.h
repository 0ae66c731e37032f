// Math functions written in the kernel language itself, for targets and vector types that lack them: each is an expression
// over add, mul, fma, select and bit operations, so that one definition serves C vectors, MSL and WGSL, and the interpreter
// can run it. f32 only. Relative error below 2e-7 for exp, log, tanh, expm1, log1p; absolute below 5e-7 for erf; pow 1e-5;
// sin and cos absolute below 2e-7 for arguments up to 8192.
// Sources: Cephes (Moshier) for log, sin, cos and the reduction of exp; the rational approximations of erf and tanh are those of
// Eigen and XLA.
#pragma once
#include "kernel/language.h"

namespace rlxc::kernel {

// Exp, Log, Sin, Cos, Tan, Tanh, Erf, Expm1, Log1p, Pow, IsNan, IsInf.
bool has_definition(ExprOp);

// A kernel whose symbols are the operands (of type f32 with these lanes) and whose last statement stores the result to its
// only buffer. Simplified. Operators inside may themselves need a definition (log1p uses log).
Kernel define(ExprOp, Type);

}  // namespace rlxc::kernel
