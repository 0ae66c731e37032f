#include "eval/compare.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "eval/value.h"
#include "support/mutants.h"

namespace rlxc {
namespace {

using eval::Tolerance;

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

eval::HostValue tensor(DType t, const std::vector<double>& v) { return eval::tensor_of(t, {static_cast<int64_t>(v.size())}, v); }

// The definition of compare.h, sentence by sentence, with numbers that have been rounded to the type.
bool plain(const std::vector<double>& a, const std::vector<double>& b, const Tolerance& t, bool exact) {
  const size_t n = a.size();
  if (exact) return a == b;
  std::vector<size_t> pairs;  // of finite numbers
  for (size_t i = 0; i < n; ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    if (std::isinf(a[i]) && a[i] == b[i]) continue;
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) return false;
    pairs.push_back(i);
  }
  double largest = 0, largest_result = 0, dot = 0, aa = 0, bb = 0, dd = 0;
  for (size_t i : pairs) {
    largest = std::max(largest, std::fabs(b[i]));
    largest_result = std::max(largest_result, std::fabs(a[i]));
    dot += a[i] * b[i];
    aa += a[i] * a[i];
    bb += b[i] * b[i];
    dd += (a[i] - b[i]) * (a[i] - b[i]);
  }
  if (largest_result == 0 && largest > std::max(1e-7, 0.1 * t.atol)) return false;
  const bool noise = largest <= 0.1 * t.atol;
  for (const int sign : {1, -1}) {
    bool any = false, kept = false;
    for (size_t i : pairs)
      if (sign * b[i] > 0 && std::fabs(b[i]) >= largest / 4) {
        any = true;
        kept = kept || sign * a[i] > 0;
      }
    if (any && !kept && !noise) return false;
  }
  const bool within =
      std::ranges::all_of(pairs, [&](size_t i) { return std::fabs(a[i] - b[i]) <= t.atol + t.rtol * std::fabs(b[i]); });
  if (noise) return within;
  if (std::sqrt(dd / bb) > t.norm_error) return false;
  if (!t.cosine) return within;
  if (dot / std::sqrt(aa) / std::sqrt(bb) < *t.cosine) return false;
  const double rms = std::sqrt(bb / static_cast<double>(n));
  return std::ranges::all_of(
      pairs, [&](size_t i) { return std::fabs(a[i] - b[i]) <= t.norm_error * (4 * rms + std::fabs(b[i])) * (1 + 1e-12); });
}

TEST_CASE("the judge agrees with its definition on random pairs") {
  std::mt19937 random(7);
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  const auto real = [&] { return static_cast<double>(random()) / 0x1p31 - 1; };
  const DType types[] = {DType::F32, DType::F16, DType::BF16, DType::F64, DType::I32, DType::U8};
  const Tolerance tolerances[] = {{.rtol = 1e-3, .atol = 1e-5, .norm_error = 0.2},
                                  {.rtol = 1e-2, .atol = 1e-2, .norm_error = 0.4},
                                  eval::similar(0.98),
                                  eval::similar(0.9999),
                                  eval::similar(0.3),
                                  {.rtol = 0, .atol = 0}};
  int passed = 0;
  for (int k = 0; k < 1000; ++k) {
    const DType type = types[pick(6)];
    Tolerance t = tolerances[pick(6)];
    t.integers = pick(2) == 0;
    const double size = std::pow(10, pick(8) - 5), noise = std::pow(10, -pick(7));
    std::vector<double> a, b;
    for (int i = 0, n = 1 + pick(40), odd = pick(3) == 0 ? 4 : 1000; i < n; ++i) {
      b.push_back(pick(6) == 0 ? 0 : size * real());
      a.push_back(b.back() + noise * size * real());
      if (pick(odd) == 0) a.back() = std::array{kNan, kInf, -kInf, 0.0, -b.back(), 2 * size}[static_cast<size_t>(pick(6))];
      if (pick(odd) == 0) b.back() = std::array{kNan, kInf, 0.0}[static_cast<size_t>(pick(3))];
    }
    if (pick(12) == 0) std::ranges::fill(a, 0);
    if (pick(12) == 0) std::ranges::fill(b, 0);
    if (!is_float(type))
      for (double* v : {a.data(), b.data()})
        for (size_t i = 0; i < a.size(); ++i) v[i] = std::isfinite(v[i]) ? std::fabs(std::round(v[i])) : 0;
    const eval::HostValue x = tensor(type, a), y = tensor(type, b);
    const bool exact = !is_float(type) && (!t.cosine || !t.integers);
    const bool expected = plain(eval::numbers(x), eval::numbers(y), t, exact);
    const eval::Judgement j = eval::judge(x, y, t);
    CHECK_MESSAGE(j.pass == expected, "pair " << k << ": " << j.message << ", cosine " << j.cosine << ", " << j.norm_error);
    CHECK(j.message.empty() == j.pass);
    passed += j.pass;
  }
  CHECK(passed > 150);
  CHECK(passed < 850);
}

TEST_CASE("each mutant of a result fails, by tolerances and by cosine") {
  for (const DType type : {DType::F32, DType::F16, DType::BF16})
    for (const auto& values : test::results_to_mutate())
      for (const Tolerance& t :
           {Tolerance{.rtol = 1e-3, .atol = 1e-5, .norm_error = 0.2}, Tolerance{.rtol = 1e-2, .atol = 1e-2, .norm_error = 0.4},
            eval::similar(0.98), eval::similar(-1)}) {
        CHECK(eval::judge(tensor(type, values), tensor(type, values), t).pass);
        for (const auto& m : test::mutants(values)) {
          if (t.cosine == -1 && !m.fails_at_any_cosine) continue;
          CHECK_MESSAGE(!eval::judge(tensor(type, m.values), tensor(type, values), t).pass, m.name << ", " << t.text());
        }
      }
}

TEST_CASE("a judgement says what is wrong") {
  const auto said = [](const std::vector<double>& a, const std::vector<double>& b, const Tolerance& t = {1e-3, 1e-5, {}, 0.2}) {
    return eval::judge(tensor(DType::F32, a), tensor(DType::F32, b), t).message;
  };
  CHECK(said({kNan, kInf}, {1, 2}) == "2 of 2 not finite, first at 0");
  CHECK(said({1, -kInf}, {1, kInf}) == "1 of 2 not finite, first at 1");
  CHECK(said({1, 2, kNan}, {1, kNan, 3}) == "1 of 3 not finite, 1 of 3 finite where they should not be, first at 1");
  CHECK(said({0, 0}, {1, -2}) == "all are 0, expected up to 2");
  CHECK(said({1, 2}, {1, -2}) == "signs are lost, as at 1");
  CHECK(said({1, 2, 3}, {1, 2, 4}) == "1 of 3 elements differ, first at 2");
  CHECK(said({2e-6, 4e-6}, {1e-6, 2e-6}) == "norm error 1 is above 0.2");
  CHECK(said({1, 1}, {1, 2}, eval::similar(0.98)) == "cosine 0.948683298 is below 0.98");
  CHECK(said({2, 4}, {1, 2}, eval::similar(0.98)) == "norm error 1 is above 0.2");
  std::vector<double> a(1000, 1), b(1000, 1);
  a[7] = -1;
  CHECK(said(a, b, eval::similar(0.98)) == "element 7 is off by far more than the others");
  CHECK(said({1e-9, 0}, {0, 0}, eval::similar(0.98)).empty());
  CHECK(eval::judge(tensor(DType::F64, {1e200, 3e200}), tensor(DType::F64, {1e200, 2e200}), eval::similar(0.9)).cosine ==
        doctest::Approx(7 / std::sqrt(50.0)));
}

}  // namespace
}  // namespace rlxc
