// Math functions defined in the kernel language, for targets and vector types that lack them or whose own are inexact. Each is an
// expression over add, mul, fma, div, sqrt, select and bit operations. f32 only. Errors are below 4 units in the last place for
// all arguments, special values and results below 2^-126 included, also where a language rounds fma twice; tan and tanh below 5,
// erf below 6, pow below 16, and exp2 is 0 below 2^-125.5. docs/functions.md has measured errors. Sources: Cephes (Moshier) for
// log, sin, cos, asin, acos, atan and the range reduction of exp; Payne and Hanek (1983) for that of large angles.
#pragma once
#include "kernel/language.h"

namespace rlxc::kernel {

// Exp, Exp2, Log, Sin, Cos, Tan, Asin, Acos, Atan, Sinh, Cosh, Tanh, Asinh, Acosh, Atanh, Erf, Expm1, Log1p, Pow, Atan2, IsNan,
// IsInf.
bool has_definition(ExprOp);

// Arguments of Sin, Cos and Tan that a definition serves: up to kNearPeriods, or all, which takes some 80 operations more.
enum class Periods : uint8_t { Near, All };
inline constexpr double kNearPeriods = 8192;

// Returns a kernel whose symbols are the operands (f32 with these lanes) and whose last statement stores the result to its only
// buffer. Simplified. Its operators may need a definition themselves (pow uses isnan).
Kernel define(ExprOp, Type, Periods = Periods::All);

}  // namespace rlxc::kernel
