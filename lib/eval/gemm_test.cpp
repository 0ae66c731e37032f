#include "eval/gemm.h"

#include <doctest/doctest.h>

#include <array>
#include <random>

#include "eval/gemm_tile.h"
#include "support/cpu_features.h"

namespace rlxc::eval {
namespace {

std::vector<double> numbers(size_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<double> out(n);
  for (double& x : out) x = static_cast<double>(random()) / 1e9 - 2;
  return out;
}

std::vector<double> by_loops(const std::vector<double>& a, const std::vector<double>& b, int64_t m, int64_t k, int64_t n) {
  std::vector<double> c(static_cast<size_t>(m * n), 0);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j)
      for (int64_t p = 0; p < k; ++p)
        c[static_cast<size_t>(i * n + j)] += a[static_cast<size_t>(i * k + p)] * b[static_cast<size_t>(p * n + j)];
  return c;
}

}  // namespace

TEST_CASE("products of matrices: the bytes of three loops, at sizes around those of tiles, strips and panels") {
  for (const auto& sizes :
       {std::array<int64_t, 3>{1, 1, 1}, {7, 5, 3}, {8, 256, 16}, {9, 257, 17}, {70, 300, 270}, {600, 2, 257}}) {
    const int64_t m = sizes[0], k = sizes[1], n = sizes[2];
    CAPTURE(n);
    CAPTURE(k);
    CAPTURE(m);
    const auto a = numbers(static_cast<size_t>(m * k), 1), b = numbers(static_cast<size_t>(k * n), 2);
    const auto expected = by_loops(a, b, m, k, n);
    std::vector<double> c(static_cast<size_t>(m * n), 0);
    gemm(a.data(), b.data(), c.data(), m, k, n);
    CHECK(c == expected);
    const int64_t dims[] = {m, n};
    CHECK(matmul<double>(tensor_view(a, {m, k}), false, tensor_view(b, {k, n}), false, dims) == expected);
    const auto b_transposed = transpose_last(b, k, n), a_transposed = transpose_last(a, m, k);
    CHECK(matmul<double>(tensor_view(a_transposed, {k, m}), true, tensor_view(b_transposed, {n, k}), true, dims) == expected);
  }
}

TEST_CASE("products of matrices on several threads, with a matrix for each and with one for all") {
  constexpr int64_t kBatch = 5, kRows = 130, kInner = 70, kColumns = 300;
  const auto a = numbers(kBatch * kRows * kInner, 3), b = numbers(kBatch * kInner * kColumns, 4);
  const int64_t dims[] = {kBatch, kRows, kColumns};
  for (int64_t matrices : {kBatch, int64_t{1}}) {
    const std::vector<double> right(b.begin(), b.begin() + matrices * kInner * kColumns);
    const auto c = matmul<double>(tensor_view(a, {kBatch, kRows, kInner}), false,
                                  tensor_view(right, {matrices, kInner, kColumns}), false, dims);
    for (int64_t i = 0; i < kBatch; ++i) {
      const auto part = [i](const std::vector<double>& x, int64_t size, int64_t count) {
        const auto at = x.begin() + (count == 1 ? 0 : i) * size;
        return std::vector<double>(at, at + size);
      };
      CHECK(part(c, kRows * kColumns, kBatch) ==
            by_loops(part(a, kRows * kInner, kBatch), part(right, kInner * kColumns, matrices), kRows, kInner, kColumns));
    }
  }
}

TEST_CASE("products of matrices are the same bytes with all sets of instructions") {
  constexpr int64_t kRows = 21, kInner = 100;
  const auto a = numbers(kRows * kInner, 5), strip = numbers(kInner * kStrip, 6);
  const auto expected = by_loops(a, strip, kRows, kInner, kStrip);
  std::vector<std::pair<const char*, MultiplyStrip>> all = {{"any", multiply_strip_any}};
#if defined(__x86_64__)
  if (has_avx2()) all.emplace_back("avx2", multiply_strip_avx2);
  if (has_avx512f()) all.emplace_back("avx512", multiply_strip_avx512);
#endif
  for (const auto& one : all) {
    const auto& [name, multiply] = one;
    CAPTURE(one.first);
    std::vector<double> c(kRows * kStrip, 0);
    multiply(a.data(), kInner, strip.data(), kInner, c.data(), kStrip, kRows);
    CHECK(c == expected);
  }
}

}  // namespace rlxc::eval
