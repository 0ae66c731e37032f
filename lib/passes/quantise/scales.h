// From the values that a tensor takes to the range that its 8-bit integers span.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "passes/pass.h"

namespace rlxc {

enum class RangeMethod : uint8_t {
  MinMax,      // all that was seen
  Percentile,  // all but the outermost values
  Entropy,     // least Kullback-Leibler divergence between the values and their quantised form
  Mse,         // least mean squared error
};
std::optional<RangeMethod> range_method_from_name(std::string_view);  // "minmax", "percentile", "entropy", "mse"

// Finite values of a tensor over all samples: first their ends, then how often each of kBins equal stretches between them occurs.
// Zeros do not count there: they are exact in every range, and the many of a rectified tensor would outweigh all else.
class ValueRange {
 public:
  static constexpr int kBins = 2048;

  void see(const std::vector<double>& values);    // all samples once ...
  void count(const std::vector<double>& values);  // ... and then again
  bool seen() const { return low_ <= high_; }

  struct Ends {
    double low = 0, high = 0;
  };
  // The chosen range, which holds 0. `percentile` in (50, 100]: how much of the values stays inside.
  Ends choose(RangeMethod, double percentile) const;

 private:
  double cost(const Ends&, RangeMethod) const;
  double value(int bin) const { return low_ + (high_ - low_) * (bin + 0.5) / kBins; }

  double low_ = 1, high_ = 0, total_ = 0;
  std::vector<double> bins_;
};

// i8: -128 stands for low, 127 for high, and 0 is exact.
CalibrationEntry entry_of(ValueRange::Ends);
// i8 with zero point 0, one scale for each coordinate of `axis` (one for all without): 127 stands for the largest magnitude.
CalibrationEntry symmetric_entry(const std::vector<double>& values, const std::vector<int64_t>& dims,
                                 std::optional<int64_t> axis);

}  // namespace rlxc
