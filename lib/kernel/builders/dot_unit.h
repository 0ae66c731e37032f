// The choice of a dot unit for a matmul or convolution.
#pragma once
#include "kernel/builders/common.h"

namespace rlxc::kernel {

// Returns the dot unit for operands of these types, or of the other signedness; null if there is none. `large`: prefers the types
// of a matrix unit, where the target has one for 8-bit integers.
const DotUnit* gemm_dot_unit(DType a, DType b, const Mapping&, bool large = false);
bool gemm_fills_matrix_unit(const Index& m, const Index& n, const Index& k);  // as far as known
// dot() for elements of a below 128, which takes fewer instructions on some processors.
Expr dot_of_small(Expr a, Expr b, Expr c);
int dot_shift(DType own, DType of_unit);  // added to values as words of them are made for the unit

}  // namespace rlxc::kernel
