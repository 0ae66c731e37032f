// The operands of a matmul as the ways of computing it (gemm.cpp, gemm_tiles.cpp, gemm_grid.cpp) see them.
#pragma once
#include "kernel/builders/gemm.h"

namespace rlxc::kernel {

// Elements are of the accumulator type, zero points subtracted. `batch` must be set before any of them is read.
class GemmOperands {
 public:
  GemmOperands(Builder&, const GemmSpec&);  // without arguments yet
  void add_a();
  void add_b();      // with what its elements take to read
  void add_zeros();  // those that the spec has
  void add_extras_and_c();

  Expr where_a(Expr row, Expr k) const { return at(spec.a, row, k); }  // elements of the buffers
  Expr where_b(Expr k, Expr column) const;
  Expr base_b() const;  // of this batch's matrix
  Expr code_of_b(Expr k, Expr column) const { return element(from_b, true, where_b(k, column), 1, 1); }
  Expr load_a(Expr row, Expr k, int lanes = 1) const;                   // lanes along k
  std::optional<Expr> zero_of_a(Expr row) const;                        // of the accumulator type
  Expr of_row(const Buf&, const Operand&, Expr row, Expr block) const;  // an entry of a rounded row
  std::optional<Expr> zero_of_b(Expr column, int lanes) const;
  Expr load_packed_a(Expr block, int row, Expr k,
                     int lanes = 1) const;  // lanes along rows; `row` counts from the first of the block
  Expr load_b(Expr k, Expr column, int lanes = 1) const;
  Expr load_b_along_k(Expr k, Expr column, int lanes) const;
  // Bias, pair (with the sums of columns n + column on) and epilogue of a vector of sums, and its store. The vector goes along a
  // row, or `down` a column.
  void write(Expr row, Expr column, Expr sum, std::optional<Expr> second = {}, bool down = false) const;
  // The same for the columns of the result from column0 on, at most `width`, whose sums lie in `from`; those of `second` lie
  // `width` behind.
  void write_line(Expr row, Expr column0, int64_t width, const Buf& from, Expr at, int lanes) const;

  bool b_vectors() const;  // whether neighbours in a row of b lie together; of c, bias and all extras
  bool c_vectors() const;
  bool c_down() const;  // whether neighbours in a column of c lie together, and not those in a row
  Expr zero(int lanes = 1) const { return broadcast(constant_int(b.kernel(), spec.accumulate, 0), lanes); }
  Expr multiply_add(Expr x, Expr y, Expr sum) const { return is_float(spec.accumulate) ? fma(x, y, sum) : x * y + sum; }
  Expr batches() const { return product(b.kernel(), spec.batch); }

  Builder& b;
  const GemmSpec& spec;
  Expr m, n, k;
  std::vector<Expr> batch;  // index along the batch axes
  Buf from_a, from_b, to_c;
  Buf scale, zero_point;     // of quantized values
  Buf row_scales, row_sums;  // of rounded rows

 private:
  Expr base(const Operand&) const;
  Expr element(const Buf&, bool is_quantized, Expr first, int64_t step, int lanes) const;
  Expr of_block(const Buf&, const Operand&, bool is_quantized, Expr k, Expr column, int lanes, bool along_k) const;
  Expr decoded(Expr k, Expr column, int lanes, bool along_k) const;
  Expr at(const Operand&, Expr row, Expr column) const;
  Expr finish_b(Expr v, Expr column) const;
  Expr biased(Expr sum, Expr column, bool down) const;
  Expr extra(size_t i, Expr row, Expr column, int lanes, bool down) const;

  Buf a_zero_, b_zero_, b_row_, bias_;
  std::vector<Buf> extras_;
};

constexpr int64_t kChunk = 256;  // steps of k for which a panel and rows stay in the cache

// Sums that all registers but a row of the right operand and one value of the left can hold.
struct RegisterTile {
  int lanes, vectors, rows;
  int64_t panel() const { return int64_t{lanes} * vectors; }  // columns
};
RegisterTile register_tile(const Mapping&, DType accumulate);

// Each adds the body of the kernel; operands were added.
void gemm_on_tiles(GemmOperands&, const Mapping&);           // threads, register tiles over panels of b
void gemm_on_grid(GemmOperands&, const Mapping&);            // lanes, tiles in shared memory and registers
void gemm_on_dots(GemmOperands&, const Mapping&);            // threads, of GemmSpec::dots
void gemm_on_quantized_dots(GemmOperands&, const Mapping&);  // the same with a quantized b
void pack_quantized_dots(GemmOperands&, const std::string& out, const Mapping&);
int64_t quantized_dot_words(const GemmSpec&, const Mapping&);
bool gemm_on_matrix_units(GemmOperands&, const Mapping&);  // lanes; false, and nothing done, where no unit fits

}  // namespace rlxc::kernel
