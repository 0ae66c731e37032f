// Scalar values of the kernel language and the result of each operator: the semantics that renderers implement.
#pragma once
#include <cstdint>

#include "kernel/language.h"

namespace rlxc::kernel {

// A float of any width is stored as the equal double; integers and bools as wrap_int returns them (fold.h).
union Value {
  int64_t i = 0;
  double f;
};

Value from_float(double);
Value from_int(int64_t);

// Rounds to the nearest value of the float type.
double round_to(DType, double);
// Applies an elementwise operator: one with rule Number, Float, Order, Test, Logic or Bits. `type` is the element type of the
// operands.
Value apply(ExprOp, DType type, Value a, Value b, Value c);
Value convert(DType to, DType from, Value);
Value reinterpret(DType to, DType from, Value);

// Reads and writes one element of memory.
Value read_element(DType, const void* base, int64_t index);
void write_element(DType, void* base, int64_t index, Value);

}  // namespace rlxc::kernel
