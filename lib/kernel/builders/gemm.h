// Matmuls c = f(a * b) with broadcast batch axes and any strides, tiled for registers and caches (gemm_tiles.cpp) or for
// registers and shared memory (gemm_grid.cpp); few rows or columns are computed one vector of the result a step.
#pragma once
#include <functional>
#include <optional>
#include <vector>

#include "kernel/builders/common.h"

namespace rlxc::kernel {

// Rows k0 .. k0 + count of b, `width` columns from `column` on, as they are wanted: element (p, j) at to[p * width + j]. Columns
// beyond n may hold anything finite. Stores of up to `lanes` elements may reach beyond the end of a row, in order of rows.
struct Panel {
  Builder* builder;
  Buf from, to;
  std::vector<Expr> batch;
  Expr column, k0, count;
  int64_t width;
  int lanes;
};

// Quantized elements of b: (value - zero) * scale. Values of fewer than 8 bits lie several to a byte, low
// bits first, in the order of b's last axis. Strides of scale and zero are over blocks of k, then n.
struct Quantized {
  int bits = 8;
  int sign = 0;                     // the sign bit, of signed integers
  std::function<Expr(Expr)> value;  // of an i32 code, or of an element of b
  int64_t block = 0;                // steps of k that share a scale; 0: all
  std::optional<Operand> scale;     // absent: 1
  std::optional<Operand> zero;
  bool zero_quantized = false;  // as b is; else a number
};

// Rows of a that hold i8 codes (build_round_rows): a scale (f32) and the sum of the codes (i32) of each row and block of
// `Quantized::block` steps of k. Strides run over the batch axes, m and blocks.
struct RoundedRows {
  Operand scale, sums;
};

// Strides of operands run over the batch axes and then: a [m,k], b [k,n], c and extras [m,n], a_zero [m], b_zero and bias [n].
struct GemmSpec {
  Dims batch;
  Index m = 1, n = 1, k = 1;
  Operand a, b, c;
  DType accumulate = DType::F32;
  // Where b is no matrix in memory, its strides are not used but these: an element at a time, and (on threads) a panel.
  std::function<Expr(const std::vector<Expr>& batch, Expr k, Expr column)> b_at;
  std::function<void(const Panel&)> fill;
  int64_t k_step = 1;  // fill is called for multiples of so many rows
  // b is the result of build_pack: its strides run over batch axes only, in matrices; or that of build_pack_codes, without
  // strides.
  bool packed = false;
  bool rows_packed = false;  // a is the result of build_pack_rows, whose strides it has
  // By a dot unit: b is the result of build_pack_dots, with the strides of `packed`. Or, if the rows are packed, a is words of
  // signed values [m][ceil(k / 4) + 1] whose last is the sum of the row, b is words of unsigned values [ceil(k / 4), n] (or
  // what `fill` makes of it), k is a multiple of 4 and constant, and b may be read to the end of a vector. Or, if b is quantized,
  // it is the result of build_pack_codes, and a holds codes (rounded).
  bool dots = false;
  // Offsets added to the values of a and b when their words were made. Zero points are those of the original values.
  int a_shift = 0, b_shift = 0;
  std::optional<Operand> a_zero, b_zero;  // subtracted from the elements of a and b; b_zero not with `packed`
  // b holds quantized values. If it is packed, scale and zero have one entry for all columns, or are results of build_pack with
  // strides over panels, blocks, columns.
  std::optional<Quantized> quantized;
  std::optional<RoundedRows> rounded;
  std::optional<Operand> b_row;  // the batch index of b for each one of c, i64 or i32 (one batch axis); not with `packed`
  Index b_rows = 1;              // how many there are
  std::optional<Operand> bias;   // added to the sums first: one number for each column of b, or (stride 0) one for all
  std::vector<Operand> extras;   // operands of the epilogue
  std::function<Expr(Expr sum, const std::vector<Expr>& extras)> epilogue;  // may be null; the result is cast to c's dtype
  // b has 2n columns, and an element of c is made of the sums of columns j and n + j (with their bias, before the epilogue).
  std::function<Expr(Expr first, Expr second)> pair;  // may be null; not with b_at
};

// Adds arguments a, b, [b_row], [scale], [zero], [a_zero], [b_zero], [scale and sums of rounded rows], [bias], extras, c and the
// body.
void build_gemm(Builder&, const GemmSpec&, const Mapping&);

// Packs b into panels [batch][ceil(n / w)][k][w] of the accumulator type, w = gemm_panel(), zero-filled; of a pair, each panel
// holds w/2 columns of each half. Adds b, [b_zero], out.
void build_pack(Builder&, const GemmSpec&, const std::string& out_name, const Mapping&);
int64_t gemm_panel(const Mapping&, DType accumulate);

// Packs b, which holds quantized values of one matrix, into i32 words in panels of columns (gemm_quantized.h; for dot units
// gemm_quantized_dots.cpp). Adds b, out. n and k are constants.
void build_pack_codes(Builder&, const GemmSpec&, const std::string& out_name, const Mapping&);
int64_t gemm_code_words(const GemmSpec&, const Mapping&);  // of all panels
bool gemm_packs_codes(const GemmSpec&, const Mapping&);    // whether n, k and blocks are such that this can be done

// Whether a dot unit of the target multiplies rounded rows by quantized values of so many bits and columns of so many.
bool gemm_fits_quantized_dots(int bits, int64_t block, int64_t n, int64_t k, const Mapping&);

// For threads with a dot unit and operands of 8 bits: packs b into panels [batch][ceil(n / w)][ceil(k / 4) + 1][w] of i32,
// w = gemm_panel(), each word four quantized of a column and the last row the sums of the columns. Adds b, out. b_zero stays with
// the matmul.
bool gemm_fits_dots(DType a, DType b, const Mapping&);
void build_pack_dots(Builder&, const GemmSpec&, const std::string& out_name, const Mapping&);

// Packs a into blocks [batch][ceil(m / h)][k][h] of the accumulator type, h = gemm_rows(): the rows of a register tile lie
// together. Its strides are {.., k, h}, rows of a block after the first follow at distance 1; those beyond m are zero. Adds a,
// [a_zero], out.
void build_pack_rows(Builder&, const GemmSpec&, const std::string& out_name, const Mapping&);
int64_t gemm_rows(const Mapping&, DType accumulate);
bool gemm_copies_rows(const GemmSpec&);  // whether build_gemm copies them for every few panels, on threads
bool gemm_is_tiled(const GemmSpec&);     // whether build_gemm works on tiles: on threads, packing ahead is of use

}  // namespace rlxc::kernel
