#include "passes/quantize/scales.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>

#include "support/saturate.h"

namespace rlxc {
namespace {

constexpr std::string_view kMethods[] = {"minmax", "percentile", "entropy", "mse"};
constexpr int kLevels = 256, kCandidates = 80;

}  // namespace

std::optional<RangeMethod> range_method_from_name(std::string_view s) {
  const auto* it = std::ranges::find(kMethods, s);
  return it == std::end(kMethods) ? std::nullopt : std::optional(static_cast<RangeMethod>(it - kMethods));
}

void ValueRange::see(const std::vector<double>& values) {
  for (double x : values) {
    if (!std::isfinite(x)) {
      left_out_ = true;
      continue;
    }
    const bool first = !seen();
    low_ = first ? x : std::min(low_, x);
    high_ = first ? x : std::max(high_, x);
  }
}

void ValueRange::count(const std::vector<double>& values) {
  bins_.resize(kBins);
  const double width = high_ - low_;
  for (double x : values) {
    if (!std::isfinite(x) || x == 0) continue;
    const int bin = width > 0 ? saturating_cast<int>((x - low_) / width * kBins) : 0;
    ++bins_[static_cast<size_t>(std::clamp(bin, 0, kBins - 1))];
    ++total_;
  }
}

// Lower is better. Comparable between candidates of one method only.
double ValueRange::cost(const Ends& e, RangeMethod method) const {
  const double step = (e.high - e.low) / (kLevels - 1);
  if (method == RangeMethod::Mse) {
    double sum = 0;
    for (int b = 0; b < kBins; ++b) {
      const double x = value(b), q = e.low + std::round((std::clamp(x, e.low, e.high) - e.low) / step) * step;
      sum += bins_[static_cast<size_t>(b)] * (x - q) * (x - q);
    }
    return sum;
  }
  // Values outside the range count at its ends in the reference (p) and are lost in the quantized distribution (q, each level
  // spread over its bins).
  std::vector<double> p(kBins), inside(kBins);
  std::array<double, kLevels> level_sum{};
  std::array<int, kLevels> level_bins{};
  const auto bin_of = [&](double x) {
    return std::clamp(saturating_cast<int>((x - low_) / (high_ - low_) * kBins), 0, kBins - 1);
  };
  const auto level_of = [&](int b) {
    return std::clamp(saturating_cast<int>((value(b) - e.low) / (e.high - e.low) * kLevels), 0, kLevels - 1);
  };
  for (int b = 0; b < kBins; ++b) {
    const double n = bins_[static_cast<size_t>(b)], x = value(b);
    p[static_cast<size_t>(bin_of(std::clamp(x, e.low, e.high)))] += n;
    if (x < e.low || x > e.high) continue;
    inside[static_cast<size_t>(b)] = n;
    const auto l = static_cast<size_t>(level_of(b));
    level_sum[l] += n;
    level_bins[l] += n > 0;
  }
  double kl = 0, kept = 0;
  for (double n : inside) kept += n;
  for (int b = 0; b < kBins; ++b) {
    const double n = p[static_cast<size_t>(b)];
    if (n == 0) continue;
    const auto l = static_cast<size_t>(level_of(b));
    const double q = inside[static_cast<size_t>(b)] > 0 ? level_sum[l] / level_bins[l] / kept : 1e-9;
    kl += n / total_ * std::log(n / total_ / q);
  }
  return kl;
}

ValueRange::Ends ValueRange::choose(RangeMethod method, double percentile) const {
  const Ends all{std::min(low_, 0.0), std::max(high_, 0.0)};
  if (method == RangeMethod::MinMax || total_ == 0 || !(low_ < high_)) return all;
  if (method == RangeMethod::Percentile) {
    const double cut = (100 - percentile) / 200 * total_;
    int first = 0, last = kBins - 1;
    for (double n = bins_[0]; n <= cut && first < last; n += bins_[static_cast<size_t>(++first)]) {}
    for (double n = bins_[kBins - 1]; n <= cut && last > first; n += bins_[static_cast<size_t>(--last)]) {}
    const double width = (high_ - low_) / kBins;
    return {std::min(low_ + first * width, 0.0), std::max(low_ + (last + 1) * width, 0.0)};
  }
  Ends best = all;
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kCandidates; ++i) {
    const double ratio = 1 - 0.01 * i;
    const Ends e{all.low * ratio, all.high * ratio};
    const double c = cost(e, method);
    if (c < least) {
      least = c;
      best = e;
    }
  }
  return best;
}

CalibrationEntry entry_of(ValueRange::Ends e) {
  double scale = (e.high - e.low) / (kLevels - 1);
  if (!(scale > 0) || !std::isfinite(scale)) scale = 1;
  const auto zero = static_cast<int64_t>(std::clamp(std::nearbyint(-128 - e.low / scale), -128.0, 127.0));
  return {{}, {scale}, {zero}};
}

CalibrationEntry symmetric_entry(ValueRange::Ends e) { return symmetric_entry({e.low, e.high}, {2}, {}); }

namespace {

// Number of consecutive elements with one scale.
size_t elements_per_scale(const std::vector<int64_t>& dims, std::optional<int64_t> axis) {
  size_t inner = 1;
  for (size_t i = axis ? static_cast<size_t>(*axis) + 1 : dims.size(); i < dims.size(); ++i)
    inner *= static_cast<size_t>(dims[i]);
  return inner;
}

}  // namespace

void QuantizationNoise::add(const CalibrationEntry& e, const std::vector<double>& values, const std::vector<int64_t>& dims) {
  const size_t inner = elements_per_scale(dims, e.axis), n = e.scales.size();
  for (size_t i = 0; i < values.size(); ++i) {
    const double x = values[i];
    if (!std::isfinite(x)) continue;
    const size_t s = e.axis ? i / inner % n : 0;
    const double zero = e.zero_points.empty() ? 0 : static_cast<double>(e.zero_points[s]);
    const double back = (std::clamp(std::nearbyint(x / e.scales[s]) + zero, -128.0, 127.0) - zero) * e.scales[s];
    signal_ += x * x;
    noise_ += (x - back) * (x - back);
  }
}

std::optional<double> QuantizationNoise::sqnr() const {
  if (!(signal_ > 0) || !(noise_ > 0)) return std::nullopt;
  return 10 * std::log10(signal_ / noise_);
}

CalibrationEntry symmetric_entry(const std::vector<double>& values, const std::vector<int64_t>& dims,
                                 std::optional<int64_t> axis) {
  const auto n = axis ? static_cast<size_t>(dims[static_cast<size_t>(*axis)]) : 1;
  const size_t inner = elements_per_scale(dims, axis);
  std::vector<double> largest(n);
  for (size_t i = 0; i < values.size(); ++i) {
    double& most = largest[axis ? i / inner % n : 0];
    if (std::isfinite(values[i])) most = std::max(most, std::fabs(values[i]));
  }
  CalibrationEntry e{axis, {}, std::vector<int64_t>(n)};
  for (double x : largest) e.scales.push_back(x > 0 ? x / 127 : 1);
  return e;
}

}  // namespace rlxc
