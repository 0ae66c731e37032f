// Matrix units of CPUs in C: a function with the instruction where the compiler knows it, and with plain sums of products
// elsewhere.
#pragma once
#include "backend/c/c_like.h"

namespace rlxc::target {

// A unit that adds a (2 x k) * b (k x 2) to c (2 x 2). One register holds a, one holds b.
// Source: Arm C Language Extensions, FEAT_I8MM and FEAT_BF16.
constexpr kernel::MatrixUnit pair_unit(DType a, DType b, DType accumulator, int k) {
  using kernel::columns, kernel::FragmentLayout, kernel::rows;
  FragmentLayout of_a, of_b;
  for (int i = 1; i < k; i *= 2) {
    of_a.element[static_cast<size_t>(of_a.element_bits++)] = columns(i);
    of_b.element[static_cast<size_t>(of_b.element_bits++)] = rows(i);
  }
  of_a.element[static_cast<size_t>(of_a.element_bits++)] = rows(1);
  of_b.element[static_cast<size_t>(of_b.element_bits++)] = columns(1);
  return {.m = 2,
          .n = 2,
          .k = k,
          .warp = 1,
          .operand = a,
          .accumulator = accumulator,
          .a = of_a,
          .b = of_b,
          .c = {{}, {columns(1), rows(1)}, 2},
          .right = b};
}
inline constexpr kernel::MatrixUnit kCpuMatrixUnits[] = {pair_unit(DType::U8, DType::I8, DType::I32, 8),
                                                         pair_unit(DType::BF16, DType::BF16, DType::F32, 4)};

// Adds a function of a, b and c and returns its name.
std::string cpu_matrix_multiply(const CLike&, const kernel::MatrixUnit&, Helpers&);

}  // namespace rlxc::target
