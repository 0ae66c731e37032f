// Results that are wrong, for tests of comparisons.
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

namespace rlxc::test {

// Values of both signs around 1; small positive ones, within common absolute tolerances; a few among zeros.
inline std::vector<std::vector<double>> results_to_mutate() {
  std::vector<double> both, small, few(50, 0.0);
  for (int i = 0; i < 64; ++i) both.push_back((i % 3 == 0 ? -1 : 1) * (0.25 + 0.125 * (i * 37 % 19)));
  for (int i = 0; i < 16; ++i) small.push_back(1e-3 * (1 + i * 7 % 11));
  few[3] = 1;
  few[17] = 0.5;
  few[40] = -0.75;
  return {both, small, few};
}

struct Mutant {
  std::string name;
  std::vector<double> values;
  bool fails_at_any_cosine = false;
};

// 20 or more of each result.
inline std::vector<Mutant> mutants(const std::vector<double>& v) {
  constexpr double kInf = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();
  const size_t n = v.size(),
               top = static_cast<size_t>(std::ranges::max_element(v, {}, [](double x) { return std::fabs(x); }) - v.begin());
  const double mean = std::accumulate(v.begin(), v.end(), 0.0) / static_cast<double>(n);
  std::vector<Mutant> out;
  const auto each = [&](std::string name, bool always, auto f) {
    Mutant m{std::move(name), v, always};
    for (size_t i = 0; i < n; ++i) m.values[i] = f(v[i], i);
    out.push_back(std::move(m));
  };
  const auto one = [&](std::string name, bool always, size_t at, double value) {
    Mutant m{std::move(name), v, always};
    m.values[at] = value;
    out.push_back(std::move(m));
  };
  each("zeros", true, [](double, size_t) { return 0.0; });
  each("negative zeros", true, [](double, size_t) { return -0.0; });
  each("NaN", true, [&](double, size_t) { return kNan; });
  each("infinities", true, [&](double, size_t) { return kInf; });
  each("infinities with signs", true, [&](double x, size_t) { return x * kInf; });
  one("one NaN", true, n / 2, kNan);
  one("one infinity", true, n - 1, kInf);
  one("one negative infinity", true, 0, -kInf);
  each("negated", true, [](double x, size_t) { return -x; });
  if (std::ranges::min(v) < 0) {
    each("magnitudes", true, [](double x, size_t) { return std::fabs(x); });
    each("negative values are 0", true, [](double x, size_t) { return std::max(x, 0.0); });
  }
  each("doubled", false, [](double x, size_t) { return 2 * x; });
  each("halved", false, [](double x, size_t) { return x / 2; });
  each("a thousand times", false, [](double x, size_t) { return 1000 * x; });
  each("a thousandth", false, [](double x, size_t) { return x / 1000; });
  each("their mean", false, [&](double, size_t) { return mean; });
  each("shifted", false, [&](double x, size_t) { return x + std::fabs(v[top]); });
  each("the second half is 0", false, [&](double x, size_t i) { return i < n / 2 ? x : 0; });
  each("the first half is negated", false, [&](double x, size_t i) { return i < n / 2 ? -x : x; });
  each("reversed", false, [&](double, size_t i) { return v[n - 1 - i]; });
  each("rotated", false, [&](double, size_t i) { return v[(i + 1) % n]; });
  each("squares", false, [](double x, size_t) { return 3 * x * std::fabs(x); });
  one("the largest is 0", false, top, 0);
  one("the largest is negated", false, top, -v[top]);
  one("one is large", false, n / 3, 1e4);
  return out;
}

}  // namespace rlxc::test
