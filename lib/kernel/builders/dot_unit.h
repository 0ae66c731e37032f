// The choice of a dot unit for a matmul or convolution.
#pragma once
#include <optional>

#include "kernel/builders/common.h"

namespace rlxc::kernel {

// Returns the dot unit for operands of these types, or of the other signedness; null if there is none. `large`: prefers the types
// of a matrix unit, where the target has one for 8-bit integers.
const DotUnit* gemm_dot_unit(DType a, DType b, const Mapping&, bool large = false);
int64_t words_beside(const Mapping&);  // words of a column that are neighbours in a panel: many for matrix units
bool gemm_fills_matrix_unit(const Index& m, const Index& n, const Index& k);  // as far as known
const MatrixUnit* pair_unit(const DotUnit&,
                            const Mapping&);  // of CPU threads, for two words of two rows and of two columns; or null
// dot() for elements of a below 128, which takes fewer instructions on some processors.
Expr dot_of_small(Expr a, Expr b, Expr c);
int dot_shift(DType own, DType of_unit);  // added to values as words of them are made for the unit

// Whether m rows of floats times a quantized weight are split into digits (build_round_rows): decoding the weight takes longer
// than reading it, and more digits than one row has take longer than f32 unless a dot product is one instruction. nullopt: known
// in the run, where `splits_rows_of` computes it.
std::optional<bool> splits_rows(std::optional<int64_t> m, const Mapping&);
Expr splits_rows_of(Expr m, const Mapping&);

}  // namespace rlxc::kernel
