// Products of row-major matrices, and sets of them over broadcast leading axes. Sums run over k in order, in the number type.
#pragma once
#include <vector>

#include "eval/context.h"
#include "ops/elementwise.h"

namespace rlxc::eval {

constexpr int64_t kPanelRows = 128, kPanelWidth = 256;

// A block of rows of a matrix: `stride` elements from one row to the next.
template <class V>
struct Panel {
  const V* data;
  int64_t stride;
};

// c[m,n] += a[m,k] * b[k,n], where panel(k0, k1, n0, width) is the block of b at rows k0 to k1 and columns n0 to n0+width.
// Blocked so that a panel stays in the cache; four rows share each load of it.
template <class V, class PanelOf>
void gemm_panels(const V* a, PanelOf panel, V* c, int64_t m, int64_t k, int64_t n) {
  for (int64_t k0 = 0; k0 < k; k0 += kPanelRows) {
    const int64_t k1 = std::min(k, k0 + kPanelRows);
    for (int64_t n0 = 0; n0 < n; n0 += kPanelWidth) {
      const int64_t width = std::min(n - n0, kPanelWidth);
      const Panel<V> b = panel(k0, k1, n0, width);
      int64_t i = 0;
      for (; i + 4 <= m; i += 4) {
        V *c0 = c + i * n + n0, *c1 = c0 + n, *c2 = c1 + n, *c3 = c2 + n;
        for (int64_t p = k0; p < k1; ++p) {
          const V x0 = a[i * k + p], x1 = a[(i + 1) * k + p], x2 = a[(i + 2) * k + p], x3 = a[(i + 3) * k + p];
          const V* row = b.data + (p - k0) * b.stride;
          for (int64_t j = 0; j < width; ++j) {
            const V y = row[j];
            c0[j] += x0 * y, c1[j] += x1 * y, c2[j] += x2 * y, c3[j] += x3 * y;
          }
        }
      }
      for (; i < m; ++i)
        for (int64_t p = k0; p < k1; ++p) {
          const V x = a[i * k + p];
          const V* row = b.data + (p - k0) * b.stride;
          for (int64_t j = 0; j < width; ++j) c[i * n + n0 + j] += x * row[j];
        }
    }
  }
}

// c[m,n] += a[m,k] * b[k,n].
template <class V>
void gemm(const V* a, const V* b, V* c, int64_t m, int64_t k, int64_t n) {
  gemm_panels(
      a,
      [&](int64_t k0, int64_t, int64_t n0, int64_t) {
        return Panel<V>{b + k0 * n + n0, n};
      },
      c, m, k, n);
}

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

// The matrix product of two tensors, as sizes `dims` of the result say. Leading axes broadcast. Elements of b are converted to V
// a panel at a time, so that a weight of gigabytes costs no memory.
template <class V>
std::vector<V> matmul(const TensorData& a, bool trans_a, const TensorData& b, bool trans_b, std::span<const int64_t> dims);

// y += operand i of the same shape, where given.
bool add_residual(Context&, size_t i, std::vector<double>& y);
// up*act(gate) of rows that are two halves of n elements; silu if no act is given.
std::vector<double> gated(std::span<const double> x, size_t n, bool gate_first, const Epilogue& act);

// Replaces each value by act(value).
void apply_epilogue(const Epilogue&, std::vector<double>& values);

// Rounds each value to the element type and back.
void round_to(DType, std::vector<double>& values);

}  // namespace rlxc::eval
