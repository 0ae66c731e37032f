// Scalar values of the kernel language and what each operator makes of them: the meaning that renderers must spell.
#pragma once
#include <cstdint>

#include "kernel/language.h"

namespace rlxc::kernel {

// Floats of any width are held as the double that equals them; integers and bools as wrap_int gives them (fold.h).
union Value {
  int64_t i = 0;
  double f;
};

Value from_float(double);
Value from_int(int64_t);

// The nearest value of this float type.
double round_to(DType, double);
// A lane-wise operator on operands of element type `type` (not Memory, Shape, Other but Select and Cast are elsewhere).
Value apply(ExprOp, DType type, Value a, Value b, Value c);
Value convert(DType to, DType from, Value);
Value reinterpret(DType to, DType from, Value);

// One element of memory, and a value as memory holds it.
Value read_element(DType, const void* base, int64_t index);
void write_element(DType, void* base, int64_t index, Value);

}  // namespace rlxc::kernel
