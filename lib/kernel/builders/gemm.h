// Matmuls c = f(a * b) with broadcast batch axes and any strides, tiled for registers and caches (gemm_tiles.cpp) or for
// registers and shared memory (gemm_grid.cpp). Few rows or columns are computed vector by vector (gemm.cpp).
#pragma once
#include <string>

#include "kernel/builders/dot_unit.h"
#include "kernel/builders/gemm_spec.h"

namespace rlxc::kernel {

// Adds arguments a, b, [b_row], [scale], [zero], [a_zero], [b_zero], inputs of the prologue, [scale, sums and fine of rounded
// rows], [floats], inputs of the epilogue, c, also, and the body.
void build_gemm(Builder&, const GemmSpec&, const Mapping&);

// Packs b into panels [batch][ceil(n / w)][k][w] of the accumulator type, w = gemm_panel() (gemm_spec.h), zero-filled. With
// `two_sums`, a panel has w/2 columns of each half. Adds b, [b_zero], out.
void build_pack(Builder&, const GemmSpec&, const std::string& out_name, const Mapping&);

// Packs one matrix b of quantized values into i32 words in panels of columns (gemm_quantized.h; gemm_quantized_dots.cpp for dot
// units). n and k are constants. Adds b, out.
void build_pack_codes(Builder&, const GemmSpec&, const std::string& out_name, const Mapping&);
int64_t gemm_code_words(const GemmSpec&, const Mapping&);  // of all panels
bool gemm_packs_codes(const GemmSpec&, const Mapping&);    // whether n, k and the group size allow it

// Returns the dot unit that multiplies rounded rows by quantized values of `bits` bits; null if there is none.
const DotUnit* gemm_quantized_dot_unit(int bits, int64_t block, int64_t n, int64_t k, const Mapping&);

// Returns whether each workgroup of a grid rounds all m rows of k elements of type a. Otherwise a launch before it does.
bool gemm_rounds_rows(int64_t m, int64_t n, int64_t k, int64_t block, DType a, const Mapping&);

// Packs b for a dot unit into panels [batch][ceil(n / w)][ceil(k / g / s)][w][s] of i32, w = gemm_panel(), s = words_beside(). A
// word has g values of a column, the group of the unit. Panels of integers have a further row of column sums. The matmul applies
// b_zero. Adds b, out.
void build_pack_dots(Builder&, const GemmSpec&, const std::string& out_name, const Mapping&);

// Packs a into blocks [batch][ceil(m / h)][k][h] of the accumulator type, h = gemm_rows(): the rows of a register tile are
// contiguous. Strides are {.., k, h}; the rows of a block follow at distance 1. Rows beyond m are zero. Adds a, [a_zero], out.
void build_pack_rows(Builder&, const GemmSpec&, const std::string& out_name, const Mapping&);
int64_t gemm_rows(const Mapping&, DType accumulate);
bool gemm_copies_rows(const GemmSpec&);  // whether build_gemm copies rows on CPU threads, once for several panels
// Whether build_gemm uses tiles, for which packing pays on CPU threads.
bool gemm_is_tiled(const GemmSpec&, const Mapping&);
// Whether so few columns fill less than half of a vector, but can be summed along k (CPU threads).
bool gemm_has_few_columns(int64_t n, DType accumulate, const Mapping&);

}  // namespace rlxc::kernel
