// Rows rounded to 8 bits, and rows split into digits of 8 bits, against scalar arithmetic.
#include "kernel/builders/round_rows.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "support/kernel_check.h"

namespace rlxc::target {
namespace {

using namespace kernel;

struct Rows {
  int64_t rows, k, block;
};

size_t count(int64_t n) { return static_cast<size_t>(n); }

// Blocks with outliers, zeros, tiny and huge numbers, infinities and NaN beside random ones.
std::vector<double> awkward_values(const Rows& f) {
  std::vector<double> x = random_values(count(f.rows * f.k), DType::F32, -3, 3, 5);
  const int64_t block = f.block ? f.block : f.k;
  for (int64_t b = 0; b < f.rows * f.k / block; ++b) {
    double* of = &x[count(b * block)];
    if (b % 6 == 1) of[block / 2] = -1e5;
    if (b % 6 == 2) of[block - 1] = std::numeric_limits<float>::max();
    if (b % 6 == 3)
      for (int64_t i = 0; i < block; ++i) of[i] = i % 3 ? 0 : static_cast<float>(of[i] * 1e-30);
    if (b % 12 == 4) of[0] = std::numeric_limits<double>::infinity();
    if (b % 12 == 10) of[1] = std::numeric_limits<double>::quiet_NaN();
    if (b % 6 == 5) std::fill(of, of + block, 0.0);
  }
  return x;
}

RoundRowsSpec spec_of(const Rows& f) {
  const int64_t blocks = f.block ? f.k / f.block : 1;
  RoundRowsSpec s{.rows = {f.rows}, .k = f.k, .block = f.block};
  s.x = {"x", DType::F32, {f.k, 1}, f.rows * f.k, 0};
  s.values = {"values", DType::I8, {f.k, 1}, f.rows * f.k, 0};
  s.scale = Operand{"scale", DType::F32, {blocks, 1}, f.rows * blocks, 0};
  s.sums = Operand{"sums", DType::I32, {blocks, 1}, f.rows * blocks, 0};
  return s;
}

KernelCase rounded_case(const Rows& f) {
  const int64_t block = f.block ? f.block : f.k, blocks = f.rows * f.k / block;
  std::vector<double> x = random_values(count(f.rows * f.k), DType::F32, -3, 3, 5), values(x.size()), scale(count(blocks)),
                      sums(count(blocks));
  std::fill_n(x.begin(), block, 0.0);
  for (int64_t b = 0; b < blocks; ++b) {
    float most = 0;
    for (int64_t i = 0; i < block; ++i) most = std::max(most, std::fabs(static_cast<float>(x[count(b * block + i)])));
    const float s = most / 127, inverse = s != 0 ? 1 / s : 0;
    scale[count(b)] = s;
    for (int64_t i = b * block; i < (b + 1) * block; ++i)
      sums[count(b)] += values[count(i)] = std::nearbyint(static_cast<float>(x[count(i)]) * inverse);
  }
  KernelCase c;
  c.name = "rounded rows of " + std::to_string(f.k);
  c.buffers = {{DType::F32, x}, {DType::I8, values, true}, {DType::F32, scale, true}, {DType::I32, sums, true}};
  c.build = [f](kernel::Builder& b, const Mapping& m) { build_round_rows(b, spec_of(f), m); };
  return c;
}

KernelCase split_case(const Rows& f) {
  const int64_t block = f.block ? f.block : f.k, of_row = f.k / block, blocks = f.rows * of_row;
  const std::vector<double> x = awkward_values(f);
  std::vector<double> digits(x.size() * kRowDigits), scale(count(blocks)), sums(count(blocks * kRowDigits)), fine(count(blocks));
  for (int64_t b = 0; b < blocks; ++b) {
    const double* of = &x[count(b * block)];
    double most = 0;
    bool finite = true;
    for (int64_t i = 0; i < block; ++i) finite = finite && std::isfinite(of[i]), most = std::max(most, std::fabs(of[i]));
    int power = -63;
    while (finite && most >= std::ldexp(127.0 / 128, power + 1)) ++power;
    scale[count(b)] = finite ? std::ldexp(1, power - 22) : std::numeric_limits<double>::quiet_NaN();
    int64_t small = 0, large = 0;
    for (int64_t i = 0; i < block; ++i) {
      int64_t rest = finite ? std::llrint(std::ldexp(of[i], 30 - power)) : 0;
      CHECK(std::abs(rest) <= 0x7F7F7F7F);
      if (rest != 0) ++(std::abs(rest) < 1 << 21 ? small : large);
      for (int64_t d = kRowDigits - 1; d >= 0; --d) {
        const int8_t digit = static_cast<int8_t>(rest);
        const int64_t row = b / of_row, at = (row * kRowDigits + d) * f.k + b % of_row * block + i;
        digits[count(at)] = digit;
        sums[count((row * kRowDigits + d) * of_row + b % of_row)] += digit;
        rest = (rest - digit) / 256;
      }
    }
    fine[count(b)] = 4 * small > large;
  }
  KernelCase c;
  c.name = "split rows of " + std::to_string(f.k);
  c.buffers = {
      {DType::F32, x}, {DType::I8, digits, true}, {DType::F32, scale, true}, {DType::I32, sums, true}, {DType::I32, fine, true}};
  c.build = [f](kernel::Builder& b, const Mapping& m) {
    RoundRowsSpec s = spec_of(f);
    s.values.extent = f.rows * kRowDigits * f.k;
    s.sums->extent = f.rows * kRowDigits * (f.block ? f.k / f.block : 1);
    s.fine = Operand{"fine", DType::I32, s.scale->strides, s.scale->extent, 0};
    build_round_rows(b, s, m);
  };
  return c;
}

TEST_CASE("rows in 8-bit integers, with scales of blocks") {
  std::vector<KernelCase> cases;
  for (const Rows& f : {Rows{2, 384, 32}, Rows{3, 80, 16}, Rows{6, 70, 0}, Rows{1, 60, 20}}) {
    cases.push_back(rounded_case(f));
    cases.push_back(split_case(f));
  }
  for (const std::string& p : check_kernels(cases)) FAIL_CHECK(p);
}

}  // namespace
}  // namespace rlxc::target
