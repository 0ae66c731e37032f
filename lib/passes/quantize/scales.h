// Chooses the range of 8-bit quantization from the values of a tensor.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "passes/pass.h"

namespace rlxc {

enum class RangeMethod : uint8_t {
  MinMax,      // all seen values
  Percentile,  // all but the outermost values
  Entropy,     // least Kullback-Leibler divergence between the values and their quantized form
  Mse,         // least mean squared error
};
std::optional<RangeMethod> range_method_from_name(std::string_view);  // "minmax", "percentile", "entropy", "mse"

// Histogram of the finite values of a tensor over all samples: first the extremes, then counts in kBins equal bins between them.
// Zeros are not counted: they are exact in every range, and those of a rectified tensor would dominate.
class ValueRange {
 public:
  static constexpr int kBins = 2048;

  void see(const std::vector<double>& values);    // first pass, over all samples
  void count(const std::vector<double>& values);  // second pass, over all samples
  bool seen() const { return low_ <= high_; }
  bool left_out() const { return left_out_; }  // some values: infinities or NaN

  struct Ends {
    double low = 0, high = 0;
  };
  // The chosen range, which contains 0. `percentile` in (50, 100]: share of the values inside.
  Ends choose(RangeMethod, double percentile) const;

 private:
  double cost(const Ends&, RangeMethod) const;
  double value(int bin) const { return low_ + (high_ - low_) * (bin + 0.5) / kBins; }

  double low_ = 1, high_ = 0, total_ = 0;
  bool left_out_ = false;
  std::vector<double> bins_;
};

// What 8 bits lose of a tensor, over all samples.
class QuantizationNoise {
 public:
  void add(const CalibrationEntry&, const std::vector<double>& values, const std::vector<int64_t>& dims);
  std::optional<double> sqnr() const;  // signal to noise in dB; nullopt: nothing is lost, or all values are 0

 private:
  double signal_ = 0, noise_ = 0;
};

// i8: low maps to -128, high to 127, and 0 is exact.
CalibrationEntry entry_of(ValueRange::Ends);
// i8 with zero point 0 and the larger of both magnitudes at 127.
CalibrationEntry symmetric_entry(ValueRange::Ends);
// i8 with zero point 0; the largest magnitude maps to 127. One scale per coordinate of `axis`, or one for the tensor.
CalibrationEntry symmetric_entry(const std::vector<double>& values, const std::vector<int64_t>& dims,
                                 std::optional<int64_t> axis);

}  // namespace rlxc
