// The sizes, operands and layouts of a matmul.
#pragma once
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "kernel/builders/fused_io.h"

namespace rlxc::kernel {

// Requests a part of b: rows k0 .. k0 + count, and `width` columns from `column` on. Element (p, j) goes to to[p * width + j].
// Columns beyond n may hold any finite value. Vector stores may reach beyond the end of a row if rows are written in order.
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
  bool is_integer = true;           // else `value` decodes floats
  int sign = 0;                     // sign bit of signed integers
  std::function<Expr(Expr)> value;  // decodes an i32 quantized value, or an element of b
  int64_t block = 0;                // group size along k; 0: all of k
  std::optional<Operand> scale;     // absent: 1
  std::optional<Operand> zero;
  bool zero_quantized = false;  // zero points are stored as b is; else they are numbers
};

// Rows of a that hold quantized i8 values (build_round_rows). Each row and block of `Quantized::block` steps of k has a scale
// (f32) and the sum of the values (i32). Strides are over the batch axes, m and blocks. A split row has its digits one after
// another, k values each, and their sums likewise. `fine` says whether the last digit counts.
struct RoundedRows {
  Operand scale, sums;
  std::optional<Operand> fine = {};
};

// Strides are over the batch axes and then: a [m,k], b [k,n], c and operands of the epilogue [m,n], a_zero [m], b_zero [n].
struct GemmSpec {
  Dims batch;
  Index m = 1, n = 1, k = 1;
  Operand a, b, c;
  DType accumulate = DType::F32;
  std::optional<DType> stored;  // type of the result of build_pack; absent: accumulate
  // A computed b ignores its strides: b_at returns an element, `fill` (CPU threads) a panel.
  std::function<Expr(const std::vector<Expr>& batch, Expr k, Expr column)> b_at;
  std::function<void(const Panel&)> fill;
  int64_t b_run = 1;   // on a grid: elements along k, from each multiple of it on, that b_at has side by side and aligned
  int64_t k_step = 1;  // k0 and count of `fill` are multiples of it
  // b is the result of build_pack, with strides over batch axes only, in matrices; or of build_pack_codes, without strides.
  bool packed = false;
  bool rows_packed = false;  // a is the result of build_pack_rows, with its strides
  // The dot unit, if any. `packed`: b is the result of build_pack_dots. With rows_packed, a is [m][ceil(k / 4) + 1] words of the
  // unit's right operand; the last word of a row is its sum. b is [ceil(k / 4), n] words of the left operand, or `fill` makes
  // them. On CPU threads, one of the operands is packed; with rows_packed, k is a constant multiple of 4, and b may
  // be read to the end of a vector. A quantized b is the result of build_pack_codes; a then holds quantized values (`rounded`).
  const DotUnit* dots = nullptr;
  int a_shift = 0, b_shift = 0;           // dot_shift of the values of a and b. Zero points refer to the original values
  std::optional<Operand> a_zero, b_zero;  // subtracted from a and b; no b_zero with `packed`
  // b is quantized. If packed, scale and zero have one entry for all columns, or are results of build_pack with strides over
  // panels, blocks, columns.
  std::optional<Quantized> quantized;
  std::optional<RoundedRows> rounded;
  // On a grid: each workgroup rounds all rows of a, which are floats, in shared memory (gemm_rounds_rows).
  bool rounds_rows = false;
  std::optional<Operand> floats;  // the rows that are split as `a`; multiplied in f32 unless splits_rows_of(m)
  // On a dot unit: quantizes the elements of a, which are f32 then. A grid does so where it reads them.
  Prologue prologue;
  // On a dot unit of CPU threads, with k a constant and b packed: the type of rows that a task copies, once for all columns, from
  // rows that are quantized or not contiguous.
  std::optional<DType> copied_rows;
  std::optional<Operand> b_row;  // index of b's matrix for each matrix of c, i64 or i32 (one batch axis); not with `packed`
  Index b_rows = 1;              // number of matrices of b
  Epilogue epilogue;             // its root is the sum of an element
  bool two_sums = false;         // b has 2n columns: the roots are the sums of columns j and n + j; not with b_at
};

int64_t gemm_panel(const Mapping&, DType accumulate);  // columns of a panel of b

}  // namespace rlxc::kernel
