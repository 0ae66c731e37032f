// Panels are stored in strips of columns. Rows times a strip are computed with the widest vectors of the CPU.
#include "eval/gemm.h"

#include "eval/gemm_tile.h"
#include "support/cpu_features.h"

namespace rlxc::eval {
namespace {

MultiplyStrip multiply_strip_here() {
#ifdef RLXC_X86_VECTORS
  if (has_avx512f()) return multiply_strip_avx512;
  if (has_avx2()) return multiply_strip_avx2;
#endif
  return multiply_strip_any;
}

void multiply_strip(const double* a, int64_t a_stride, const double* strip, int64_t k, double* c, int64_t c_stride, int64_t m) {
  static const MultiplyStrip here = multiply_strip_here();
  here(a, a_stride, strip, k, c, c_stride, m);
}

void multiply_strip(const Int* a, int64_t a_stride, const Int* strip, int64_t k, Int* c, int64_t c_stride, int64_t m) {
  for (int64_t i = 0; i < m; ++i)
    for (int64_t p = 0; p < k; ++p)
      for (int64_t j = 0; j < kStrip; ++j) c[i * c_stride + j] += a[i * a_stride + p] * strip[p * kStrip + j];
}

}  // namespace

template <class V>
void Panel<V>::begin(int64_t rows, int64_t columns) {
  rows_ = rows;
  columns_ = columns;
  const int64_t rest = columns % kStrip;
  const auto size = static_cast<size_t>((columns + kStrip - 1) / kStrip * kStrip * rows);
  if (cells_.size() < size) cells_.resize(size);
  V* last = cells_.data() + columns / kStrip * kStrip * rows;
  for (int64_t p = 0; rest > 0 && p < rows; ++p) std::fill(last + p * kStrip + rest, last + (p + 1) * kStrip, V(0));
}

template <class V>
void Panel<V>::set_row(int64_t p, const V* row) {
  for (int64_t j = 0; j < columns_; j += kStrip)
    std::copy_n(row + j, std::min(kStrip, columns_ - j), cells_.data() + j * rows_ + p * kStrip);
}

template <class V>
void Panel<V>::set_column(int64_t j, const V* column) {
  V* to = cells_.data() + j / kStrip * kStrip * rows_ + j % kStrip;
  for (int64_t p = 0; p < rows_; ++p) to[p * kStrip] = column[p];
}

template <class V>
void Panel<V>::multiply(const V* a, int64_t a_stride, V* c, int64_t c_stride, int64_t m) const {
  constexpr int64_t kRows = 64;  // rows per block for a result narrower than a strip
  for (int64_t j = 0; j < columns_; j += kStrip) {
    const V* strip = cells_.data() + j * rows_;
    const int64_t width = std::min(kStrip, columns_ - j);
    if (width == kStrip) {
      multiply_strip(a, a_stride, strip, rows_, c + j, c_stride, m);
      continue;
    }
    for (int64_t i = 0; i < m; i += kRows) {
      V part[kRows * kStrip] = {};
      const int64_t rows = std::min(kRows, m - i);
      for (int64_t r = 0; r < rows; ++r) std::copy_n(c + (i + r) * c_stride + j, width, part + r * kStrip);
      multiply_strip(a + i * a_stride, a_stride, strip, rows_, part, kStrip, rows);
      for (int64_t r = 0; r < rows; ++r) std::copy_n(part + r * kStrip, width, c + (i + r) * c_stride + j);
    }
  }
}

template <class V>
void gemm(const V* a, const V* b, V* c, int64_t m, int64_t k, int64_t n) {
  Panel<V> panel;
  for (int64_t n0 = 0; n0 < n; n0 += Panel<V>::kMostColumns)
    for (int64_t k0 = 0; k0 < k; k0 += Panel<V>::kMostRows) {
      panel.begin(std::min(Panel<V>::kMostRows, k - k0), std::min(Panel<V>::kMostColumns, n - n0));
      for (int64_t p = 0; p < panel.rows(); ++p) panel.set_row(p, b + (k0 + p) * n + n0);
      panel.multiply(a + k0, k, c + n0, n, m);
    }
}

template class Panel<double>;
template class Panel<Int>;
template void gemm(const double*, const double*, double*, int64_t, int64_t, int64_t);
template void gemm(const Int*, const Int*, Int*, int64_t, int64_t, int64_t);

}  // namespace rlxc::eval
