// Matmuls of row-major matrices, with broadcast leading axes. Sums run over k in order, in the number type.
#pragma once
#include <vector>

#include "eval/context.h"
#include "ops/elementwise.h"

namespace rlxc::eval {

// A panel of the right operand of a matmul, filled by rows or by columns.
template <class V>
class Panel {
 public:
  static constexpr int64_t kMostRows = 256, kMostColumns = 256;

  void begin(int64_t rows, int64_t columns);
  void set_row(int64_t p, const V* row);
  void set_column(int64_t j, const V* column);
  int64_t rows() const { return rows_; }

  // c[m,columns] += a[m,rows] * panel. a_stride and c_stride: elements between rows.
  void multiply(const V* a, int64_t a_stride, V* c, int64_t c_stride, int64_t m) const;

 private:
  std::vector<V> cells_;
  int64_t rows_ = 0, columns_ = 0;
};

// c[m,n] += a[m,k] * b[k,n], single-threaded.
template <class V>
void gemm(const V* a, const V* b, V* c, int64_t m, int64_t k, int64_t n);

// Swaps the last two axes: [.., rows, columns] to [.., columns, rows].
template <class V>
std::vector<V> transpose_last(const std::vector<V>& x, int64_t rows, int64_t columns) {
  std::vector<V> out(x.size());
  const size_t size = static_cast<size_t>(rows * columns);
  for (size_t base = 0; size > 0 && base < x.size(); base += size)
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t k = 0; k < columns; ++k)
        out[base + static_cast<size_t>(k * rows + r)] = x[base + static_cast<size_t>(r * columns + k)];
  return out;
}

// The matmul of two tensors with result dims `dims`, broadcasting leading axes. Converts b to V one panel at a time, so a weight
// of gigabytes needs no copy. Multi-threaded.
template <class V>
std::vector<V> matmul(const TensorData& a, bool trans_a, const TensorData& b, bool trans_b, std::span<const int64_t> dims);

// y += operand i of the same shape, if present.
bool add_residual(Context&, size_t i, std::vector<double>& y);
// up*act(gate) for rows of two halves of n elements; silu if `act` is empty.
std::vector<double> gated(std::span<const double> x, size_t n, bool gate_first, const Epilogue& act);

// Replaces each value by act(value).
void apply_epilogue(const Epilogue&, std::vector<double>& values);

// Rounds each value to the element type and back.
void round_to(DType, std::vector<double>& values);

}  // namespace rlxc::eval
