// Matmuls c = f(a * b) with broadcast batch axes and any strides, tiled for registers and caches (gemm_tiles.cpp) or for
// registers and shared memory (gemm_grid.cpp). Few rows or columns are computed vector by vector (gemm.cpp).
#pragma once
#include <functional>
#include <optional>
#include <vector>

#include "kernel/builders/common.h"

namespace rlxc::kernel {

// A request for rows k0 .. k0 + count of b, `width` columns from `column` on: element (p, j) goes to to[p * width + j]. Columns
// beyond n may hold any finite value. Vector stores may reach beyond the end of a row if rows are written in order.
struct Panel {
  Builder* builder;
  Buf from, to;
  std::vector<Expr> batch;
  Expr column, k0, count;
  int64_t width;
  int lanes;
};

// Quantized elements of b: (value - zero) * scale. Values of fewer than 8 bits are packed along b's last axis, low bits first.
// Strides of scale and zero are over blocks of k, then n.
struct Quantized {
  int bits = 8;
  int sign = 0;                     // sign bit of signed integers
  std::function<Expr(Expr)> value;  // decodes an i32 quantized value, or an element of b
  int64_t block = 0;                // group size along k; 0: all of k
  std::optional<Operand> scale;     // absent: 1
  std::optional<Operand> zero;
  bool zero_quantized = false;  // zero points are stored as b is; else they are numbers
};

// Rows of a that hold quantized i8 values (build_round_rows): for each row and block of `Quantized::block` steps of k, a scale
// (f32) and the sum of the values (i32). Strides are over the batch axes, m and blocks.
struct RoundedRows {
  Operand scale, sums;
};

// Strides are over the batch axes and then: a [m,k], b [k,n], c and extras [m,n], a_zero [m], b_zero and bias [n].
struct GemmSpec {
  Dims batch;
  Index m = 1, n = 1, k = 1;
  Operand a, b, c;
  DType accumulate = DType::F32;
  // A computed b ignores its strides: b_at returns an element, `fill` (CPU threads) a panel.
  std::function<Expr(const std::vector<Expr>& batch, Expr k, Expr column)> b_at;
  std::function<void(const Panel&)> fill;
  int64_t k_step = 1;  // k0 and count of `fill` are multiples of it
  // b is the result of build_pack, with strides over batch axes only, in matrices; or of build_pack_codes, without strides.
  bool packed = false;
  bool rows_packed = false;  // a is the result of build_pack_rows, with its strides
  // On a dot unit. b is the result of build_pack_dots, with the strides of `packed`. With rows_packed, a holds words of signed
  // values [m][ceil(k / 4) + 1], the last one the sum of the row; b holds words of unsigned values [ceil(k / 4), n] (or `fill`
  // makes them), k is a constant multiple of 4, and b may be read to the end of a vector. With a quantized b, b is the result of
  // build_pack_codes and a holds quantized values (`rounded`).
  bool dots = false;
  // Offsets added to the values of a and b when their words were made. Zero points refer to the original values.
  int a_shift = 0, b_shift = 0;
  std::optional<Operand> a_zero, b_zero;  // subtracted from a and b; no b_zero with `packed`
  // b is quantized. If packed, scale and zero have one entry for all columns, or are results of build_pack with strides over
  // panels, blocks, columns.
  std::optional<Quantized> quantized;
  std::optional<RoundedRows> rounded;
  std::optional<Operand> b_row;  // index of b's matrix for each matrix of c, i64 or i32 (one batch axis); not with `packed`
  Index b_rows = 1;              // number of matrices of b
  std::optional<Operand> bias;   // added to the sums first: one number per column of b, or (stride 0) one for all
  std::vector<Operand> extras;   // operands of the epilogue
  std::function<Expr(Expr sum, const std::vector<Expr>& extras)> epilogue;  // may be null; the result is cast to c's dtype
  // b has 2n columns. An element of c combines the sums of columns j and n + j, after the bias and before the epilogue.
  std::function<Expr(Expr first, Expr second)> pair;  // may be null; not with b_at
};

// Adds arguments a, b, [b_row], [scale], [zero], [a_zero], [b_zero], [scale and sums of rounded rows], [bias], extras, c and the
// body.
void build_gemm(Builder&, const GemmSpec&, const Mapping&);

// Packs b into panels [batch][ceil(n / w)][k][w] of the accumulator type, w = gemm_panel(), zero-filled. With `pair`, a panel has
// w/2 columns of each half. Adds b, [b_zero], out.
void build_pack(Builder&, const GemmSpec&, const std::string& out_name, const Mapping&);
int64_t gemm_panel(const Mapping&, DType accumulate);

// Packs one matrix b of quantized values into i32 words in panels of columns (gemm_quantized.h; gemm_quantized_dots.cpp for dot
// units). n and k are constants. Adds b, out.
void build_pack_codes(Builder&, const GemmSpec&, const std::string& out_name, const Mapping&);
int64_t gemm_code_words(const GemmSpec&, const Mapping&);  // of all panels
bool gemm_packs_codes(const GemmSpec&, const Mapping&);    // whether n, k and the group size allow it

// Returns whether a dot unit of the target multiplies rounded rows by quantized values of `bits` bits.
bool gemm_fits_quantized_dots(int bits, int64_t block, int64_t n, int64_t k, const Mapping&);

// For CPU threads with a dot unit and 8-bit or bf16 operands: packs b into panels [batch][ceil(n / w)][ceil(k / g)][w] of i32, w
// = gemm_panel(). A word has g = dot_group() values of a column. Panels of integers have a further row of column sums. The matmul
// applies b_zero. Adds b, out.
bool gemm_fits_dots(DType a, DType b, const Mapping&);
int64_t dot_group(DType accumulate);
void build_pack_dots(Builder&, const GemmSpec&, const std::string& out_name, const Mapping&);

// Packs a into blocks [batch][ceil(m / h)][k][h] of the accumulator type, h = gemm_rows(): the rows of a register tile are
// contiguous. Strides are {.., k, h}; the rows of a block follow at distance 1. Rows beyond m are zero. Adds a, [a_zero], out.
void build_pack_rows(Builder&, const GemmSpec&, const std::string& out_name, const Mapping&);
int64_t gemm_rows(const Mapping&, DType accumulate);
bool gemm_copies_rows(const GemmSpec&);  // whether build_gemm copies rows on CPU threads, once for several panels
bool gemm_is_tiled(const GemmSpec&);     // whether build_gemm uses tiles, for which packing pays on CPU threads

}  // namespace rlxc::kernel
