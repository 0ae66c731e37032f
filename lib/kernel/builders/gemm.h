// Matrix products c = f(a * b) with broadcast batch axes and any strides.
//
// On threads: the register tile of Goto and van de Geijn ("Anatomy of High-Performance Matrix Multiplication", 2008): rows x
// (4 vectors) of accumulators over a panel of b whose columns lie together. The panel is packed ahead (weights) or, piece by
// piece, on the stack of the thread. Elsewhere one element (or vector) of the result a step.
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

// Strides of operands run over the batch axes and then: a [m,k], b [k,n], c and extras [m,n], a_zero [m], b_zero [n].
struct GemmSpec {
  Dims batch;
  Index m = 1, n = 1, k = 1;
  Operand a, b, c;
  DType accumulate = DType::F32;
  std::function<void(const Panel&)> fill;  // where b is no matrix in memory: its strides are not used then
  int64_t k_step = 1;                      // fill is called for multiples of so many rows
  bool packed = false;                     // b is the result of build_pack (only its name, dtype and extent are used)
  std::optional<Operand> a_zero, b_zero;   // subtracted from the elements of a and b; b_zero not with `packed`
  std::vector<Operand> extras;             // operands of the epilogue
  std::function<Expr(Expr sum, const std::vector<Expr>& extras)> epilogue;  // may be null; the result is cast to c's dtype
};

// Adds arguments a, b, [a_zero], [b_zero], extras, c and the body.
inline constexpr int64_t kGemmChunk = 256;
void build_gemm(Builder&, const GemmSpec&, const Mapping&);

// Packs b into panels [batch][ceil(n / w)][k][w] of the accumulator type, w = gemm_panel(), zero-filled. Adds b, [b_zero], out.
void build_pack(Builder&, const GemmSpec&, const std::string& out_name, const Mapping&);
int64_t gemm_panel(const Mapping&, DType accumulate);
bool gemm_is_tiled(const GemmSpec&, const Mapping&);  // whether build_gemm works on panels (packing ahead is of use)

}  // namespace rlxc::kernel
