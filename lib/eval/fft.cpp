// Discrete Fourier transforms of any length: radix 2 for powers of two, Bluestein's algorithm (1970) for others. O(n log n).
#include <algorithm>
#include <bit>

#include "eval/context.h"

namespace rlxc::eval {
namespace {

// exp(sign * 2 pi i k / n). Reduces k modulo n first to preserve the precision of the angle.
Complex root(int64_t k, int64_t n, double sign) {
  const double angle = 2 * M_PI * static_cast<double>(k % n) / static_cast<double>(n);
  return {std::cos(angle), sign * std::sin(angle)};
}

void radix2(std::vector<Complex>& x, double sign) {
  const size_t n = x.size();
  for (size_t i = 1, j = 0; i < n; ++i) {
    size_t bit = n >> 1;
    for (; j & bit; bit >>= 1) j ^= bit;
    j ^= bit;
    if (i < j) std::swap(x[i], x[j]);
  }
  std::vector<Complex> roots(n / 2);
  for (size_t k = 0; k < n / 2; ++k) roots[k] = root(static_cast<int64_t>(k), static_cast<int64_t>(n), sign);
  for (size_t half = 1; half < n; half *= 2)
    for (size_t base = 0; base < n; base += 2 * half)
      for (size_t k = 0; k < half; ++k) {
        const Complex a = x[base + k], b = x[base + k + half] * roots[k * (n / (2 * half))];
        x[base + k] = a + b, x[base + k + half] = a - b;
      }
}

void dft(std::vector<Complex>& x, double sign) {
  const size_t n = x.size();
  if (n <= 1) return;
  if (std::has_single_bit(n)) return radix2(x, sign);
  const size_t m = std::bit_ceil(2 * n);
  std::vector<Complex> a(m), b(m);
  auto chirp = [&](size_t k) { return root(static_cast<int64_t>(k * k % (2 * n)), static_cast<int64_t>(2 * n), sign); };
  for (size_t k = 0; k < n; ++k) {
    a[k] = x[k] * chirp(k);
    b[k] = std::conj(chirp(k));
    if (k > 0) b[m - k] = b[k];
  }
  radix2(a, 1), radix2(b, 1);
  for (size_t k = 0; k < m; ++k) a[k] *= b[k];
  radix2(a, -1);
  for (size_t k = 0; k < n; ++k) x[k] = a[k] / static_cast<double>(m) * chirp(k);
}

bool eval_fft(Context& c) {
  const auto& a = c.a<FftAttrs>();
  const auto dims = c.result_dims();
  const auto& in_dims = c.dims(0);
  const auto k = static_cast<size_t>(a.axis);
  const int64_t given = in_dims[k], parts = in_dims.back(), length = c.size(a.length);
  const int64_t n = length != 0 ? length : given;
  const bool mirrored = a.onesided && a.inverse;  // the upper half is conjugate to the lower one
  if (n < 1) return c.fail("the transform needs a positive length");
  if (!c.charge(8.0 * static_cast<double>(product(dims)) * static_cast<double>(std::bit_width(static_cast<uint64_t>(n)))))
    return false;
  const auto x = c.doubles(0);
  const Split from = split_at(std::span(in_dims).first(in_dims.size() - 1), a.axis),
              to = split_at(std::span(dims).first(dims.size() - 1), a.axis);
  const double scale = a.norm == FftNorm::InverseN  ? 1.0 / static_cast<double>(n)
                       : a.norm == FftNorm::Unitary ? 1 / std::sqrt(static_cast<double>(n))
                                                    : 1;
  std::vector<double> y(static_cast<size_t>(product(dims)));
  std::vector<Complex> line(static_cast<size_t>(n));
  for (int64_t o = 0; o < from.outer; ++o)
    for (int64_t i = 0; i < from.inner; ++i) {
      auto element = [&](int64_t j) -> Complex {
        if (j >= given) return 0;
        const auto at = static_cast<size_t>(((o * given + j) * from.inner + i) * parts);
        return {x[at], parts == 2 ? x[at + 1] : 0};
      };
      for (int64_t j = 0; j < n; ++j)
        line[static_cast<size_t>(j)] = mirrored && j > n / 2 ? std::conj(element(n - j)) : element(j);
      dft(line, a.inverse ? 1 : -1);
      for (int64_t j = 0; j < to.n; ++j) {
        const Complex v = line[static_cast<size_t>(j)] * scale;
        const auto at = static_cast<size_t>(((o * to.n + j) * to.inner + i) * dims.back());
        y[at] = v.real();
        if (dims.back() == 2) y[at + 1] = v.imag();
      }
    }
  return c.put_result(0, y);
}

}  // namespace

std::span<const Entry> fft_evaluators() {
  static constexpr Entry kTable[] = {{OpKind::Fft, eval_fft}};
  return kTable;
}

}  // namespace rlxc::eval
