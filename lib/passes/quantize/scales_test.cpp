#include "passes/quantize/scales.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace rlxc;

namespace {

ValueRange range_of(const std::vector<double>& values) {
  ValueRange r;
  r.see(values), r.count(values);
  return r;
}

// 10,000 values of a normal distribution of variance 1, and one far outside.
std::vector<double> with_outlier() {
  std::vector<double> v;
  for (int i = 0; i < 10000; ++i) {
    const double u = (i + 0.5) / 10000, w = std::fmod(i * 0.6180339887498949, 1.0);
    v.push_back(std::sqrt(-2 * std::log(u)) * std::cos(6.283185307179586 * w));
  }
  v.push_back(100);
  return v;
}

}  // namespace

TEST_CASE("minmax spans what was seen and 0") {
  const auto e = range_of({1, 3, 2}).choose(RangeMethod::MinMax, 100);
  CHECK(e.low == 0);
  CHECK(e.high == 3);
  CHECK(range_of({-2, -1}).choose(RangeMethod::MinMax, 100).high == 0);
}

TEST_CASE("the other methods cut an outlier off") {
  const ValueRange r = range_of(with_outlier());
  CHECK(r.choose(RangeMethod::MinMax, 100).high == 100);
  CHECK(r.choose(RangeMethod::Percentile, 99.9).high < 10);
  CHECK(r.choose(RangeMethod::Entropy, 100).high < 100);
  CHECK(r.choose(RangeMethod::Percentile, 99.9).low < -3);
}

TEST_CASE("the mean squared error of the chosen range is not larger than that of all") {
  std::vector<double> v = with_outlier();
  v.back() = 8;
  const auto error = [&](ValueRange::Ends e) {
    const double step = (e.high - e.low) / 255;
    double sum = 0;
    for (double x : v) {
      const double q = e.low + std::round((std::fmin(std::fmax(x, e.low), e.high) - e.low) / step) * step;
      sum += (x - q) * (x - q);
    }
    return sum;
  };
  const ValueRange r = range_of(v);
  CHECK(error(r.choose(RangeMethod::Mse, 100)) <= 1.01 * error(r.choose(RangeMethod::MinMax, 100)));
}

TEST_CASE("infinities, NaN and constant tensors have a usable scale") {
  const double inf = std::numeric_limits<double>::infinity();
  const auto e = range_of({-inf, std::nan(""), 2, inf}).choose(RangeMethod::Mse, 100);
  CHECK(e.high == 2);
  CHECK(entry_of(range_of({0, 0}).choose(RangeMethod::Entropy, 100)).scales[0] == 1);
  CHECK_FALSE(range_of({std::nan("")}).seen());
}

TEST_CASE("the noise of a tensor in dB") {
  const CalibrationEntry e{{}, {0.5}, {0}};
  QuantizationNoise exact, half, scaled;
  exact.add(e, {1, -2.5, 0}, {3});
  CHECK_FALSE(exact.sqnr());
  half.add(e, {10.2}, {1});  // 10 in 8 bits
  half.add(e, {0.1}, {1});   // 0
  CHECK(*half.sqnr() == doctest::Approx(10 * std::log10((10.2 * 10.2 + 0.01) / 0.05)));
  scaled.add({1, {1, 0.25}, {0, 0}}, {3.25, 3.25, 40, 40}, {2, 2});  // columns; 40 saturates at 127 / 4
  CHECK(*scaled.sqnr() == doctest::Approx(10 * std::log10((2 * 3.25 * 3.25 + 3200) / (0.0625 + 8.25 * 8.25))));
}

TEST_CASE("scales and zero points: 0 is exact, both ends are reached") {
  const CalibrationEntry e = entry_of({-1, 3});
  CHECK(e.scales[0] == doctest::Approx(4.0 / 255));
  CHECK(e.zero_points[0] == -64);
  const CalibrationEntry w = symmetric_entry({1, -2, 3, -4, 5, 0}, {3, 2}, 1);
  CHECK(w.scales == std::vector<double>{5.0 / 127, 4.0 / 127});
  CHECK(symmetric_entry({1, -2, 0, 0}, {2, 2}, 0).scales[1] == 1);
  CHECK(symmetric_entry({1, -2}, {2}, std::nullopt).scales == std::vector<double>{2.0 / 127});
}

TEST_CASE("symmetric ranges end at the larger magnitude") {
  const CalibrationEntry e = symmetric_entry(ValueRange::Ends{-2, 12.7});
  CHECK(e.scales == std::vector<double>{12.7 / 127});
  CHECK(e.zero_points == std::vector<int64_t>{0});
}

TEST_CASE("names of methods") {
  CHECK(range_method_from_name("mse") == RangeMethod::Mse);
  CHECK_FALSE(range_method_from_name("average"));
}
