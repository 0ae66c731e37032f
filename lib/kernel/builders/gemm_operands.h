// The operands of a matmul, shared by its implementations (gemm.cpp, gemm_tiles.cpp, gemm_grid.cpp).
#pragma once
#include "kernel/builders/gemm_spec.h"
#include "kernel/builders/tasks.h"

namespace rlxc::kernel {

// The arguments of the kernel.
struct GemmBuffers {
  Buf from_a, from_b, to_c;
  Buf scale, zero_point;               // of quantized values
  Buf row_scales, row_sums, row_fine;  // of rounded rows
  Buf row_words;                       // of rows that workgroups round, four values each
  Buf floats;                          // rows that are split
  Buf a_zero, b_zero, b_row;
  FusedInputs of_rows;  // of the prologue
  FusedInputs fused;    // of the epilogue
  std::vector<Buf> to_also;
};

// Loads return the accumulator type with zero points subtracted. Set `batch` before any load.
class GemmOperands : public GemmBuffers {
 public:
  GemmOperands(Builder&, const GemmSpec&);  // adds no arguments
  // The same arguments by another spec.
  GemmOperands(const GemmOperands& o, const GemmSpec& s) : GemmBuffers(o), b(o.b), spec(s), m(o.m), n(o.n), k(o.k) {}
  void add_a();
  void add_b();      // adds scale and zero points of a quantized b too
  void add_zeros();  // adds those of the spec
  void add_fused();  // the inputs of the epilogue
  void add_fused_and_c();

  // Element offsets in the buffers.
  Expr where_a(Expr row, Expr k) const { return copied_width ? (row - first_copied) * copied_width + k : at(spec.a, row, k); }
  Expr where_b(Expr k, Expr column) const;
  Expr base_b() const;  // offset of this batch's matrix
  Expr code_of_b(Expr k, Expr column) const { return element(from_b, true, where_b(k, column), 1, 1); }
  Expr load_a(Expr row, Expr k, int lanes = 1) const;                   // lanes along k
  std::optional<Expr> zero_of_a(Expr row) const;                        // in the accumulator type
  Expr of_row(const Buf&, const Operand&, Expr row, Expr block) const;  // an entry of RoundedRows
  Expr scale_of_row(Expr row, Expr block) const;                        // of rounded rows
  Expr sum_of_row(Expr row, Expr block) const;
  // The scale (f32) and the zero point of an element of a quantized b. Where the condition is false, nothing is read.
  Expr scale_of_b(Expr k, Expr column, std::optional<Expr> condition = {}) const;
  Expr zero_point_of_b(Expr k, Expr column, DType, std::optional<Expr> condition = {}) const;
  std::optional<Expr> zero_of_b(Expr column, int lanes) const;
  Expr load_packed_a(Expr block, int row, Expr k,
                     int lanes = 1) const;  // lanes along rows; `row` counts from the first row of the block
  Expr load_b(Expr k, Expr column, int lanes = 1) const;
  Expr load_b_along_k(Expr k, Expr column, int lanes) const;
  // Applies the epilogue to a vector of sums (`second`: of columns n + column) and stores the results. The vector is along a row,
  // or along a column if `down`.
  void write(Expr row, Expr column, Expr sum, std::optional<Expr> second = {}, bool down = false) const;
  // Writes a row of at most `width` result columns from column0 on. Their sums are in `from` at `at`; those of `second` follow at
  // distance `width`.
  void write_line(Expr row, Expr column0, int64_t width, const Buf& from, Expr at, int lanes) const;

  // The inputs of the epilogue for a vector of elements; one lane of those that repeat.
  std::vector<Expr> load_fused(Expr row, Expr column, int lanes, bool down) const;

  bool b_vectors() const;  // whether rows of b are contiguous; c_vectors: of all results
  bool c_vectors() const;
  int64_t lanes_of_writes(int64_t most) const;  // columns that aligned accesses can write at once, up to a power of two
  bool c_down() const;                          // whether columns of c are contiguous and rows are not
  Expr zero(int lanes = 1) const { return broadcast(constant_int(b.kernel(), spec.accumulate, 0), lanes); }
  Expr multiply_add(Expr x, Expr y, Expr sum) const { return is_float(spec.accumulate) ? fma(x, y, sum) : x * y + sum; }
  Expr blocks() const { return spec.quantized->block ? k / spec.quantized->block : b.i64(1); }  // of a row
  Expr batches() const { return product(b.kernel(), spec.batch); }

  Builder& b;
  const GemmSpec& spec;
  Expr m, n, k;
  std::vector<Expr> batch;  // index along the batch axes
  // Once a task has copied rows from `first_copied` on to from_a: elements of a copied row. 0: there is no copy.
  int64_t copied_width = 0;
  Expr first_copied;

 private:
  Expr base(const Operand&) const;
  Expr element(const Buf&, bool is_quantized, Expr first, int64_t step, int lanes, std::optional<Expr> condition = {}) const;
  Expr of_block(const Buf&, const Operand&, bool is_quantized, Expr k, Expr column, int lanes, bool along_k,
                std::optional<Expr> condition = {}) const;
  Expr decoded(Expr k, Expr column, int lanes, bool along_k) const;
  Expr at(const Operand&, Expr row, Expr column) const;
  Expr finish_b(Expr v, Expr column) const;
};

constexpr int64_t kChunk = 256;  // steps of k per cached chunk of a panel and rows

// A tile of sums that fills the registers, except a row of the right operand and one value of the left.
struct RegisterTile {
  int lanes, vectors, rows;
  int64_t panel() const { return int64_t{lanes} * vectors; }  // columns
};
RegisterTile register_tile(const Mapping&, DType accumulate);

// Each emits the kernel body. Arguments were added before.
Tasks gemm_tasks_on_tiles(GemmOperands&, const Mapping&);  // CPU threads, register tiles over panels of b
void gemm_on_tiles(GemmOperands&, const Mapping&);
void gemm_on_grid(GemmOperands&, const Mapping&);  // grid, tiles in shared memory and registers
void gemm_on_dots(GemmOperands&, const Mapping&);  // CPU threads, GemmSpec::dots
// The same for `rows` rows from row0 on, at most row_block, and all columns of a packed b.
void gemm_rows_on_dots(GemmOperands&, const Mapping&, Expr row0, Expr rows, int64_t row_block);
void gemm_on_quantized_dots(GemmOperands&, const Mapping&);  // CPU threads, GemmSpec::dots with a quantized b
void pack_quantized_dots(GemmOperands&, const std::string& out, const Mapping&);
int64_t quantized_dot_words(const GemmSpec&, const Mapping&);
bool gemm_by_split_sums(GemmOperands&, const Mapping&);    // grid, few rows or columns; returns false if k is short
bool gemm_on_matrix_units(GemmOperands&, const Mapping&);  // grid; returns false and emits nothing if no unit fits

}  // namespace rlxc::kernel
