// Compares results with expected values.
#include "eval/compare.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "eval/tensor.h"
#include "support/number.h"

namespace rlxc::eval {
namespace {

constexpr double kZero = 1e-7;        // below: the rounding of sums of values near 1, which may cancel to 0
constexpr double kClear = 0.25;       // share of the largest magnitude from which on an element shows its sign
constexpr double kNoiseOfAtol = 0.1;  // share of atol below which values are noise
constexpr double kOutlier = 4;        // times the root mean square of an error

std::string_view kind_name(TypeKind k) {
  static constexpr std::string_view kNames[] = {"a tensor", "a sequence", "an optional", "a map"};
  return kNames[static_cast<size_t>(k)];
}

void count(Comparison& r, int64_t i) {
  if (r.mismatches++ == 0) r.first_mismatch = i;
}

std::string digits(double x) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, x, std::chars_format::general, 9).ptr};
}

Judgement not_comparable(std::string message) {
  Judgement r;
  r.cosine = 0;
  r.norm_error = std::numeric_limits<double>::infinity();
  r.message = std::move(message);
  return r;
}

// An element and a figure that it has.
struct Extreme {
  double value = 0;
  int64_t index = -1;
  void see(double v, int64_t i) {
    if (v > value) value = v, index = i;
  }
};

// Collects figures of pairs of elements, and judges them.
class Judge {
 public:
  // `scale` keeps squares of elements in the range of double.
  Judge(const Tolerance& t, double scale) : t_(t), scale_(scale) {}

  void add(double x, double y, int64_t i) { add(x, y, std::fabs(x - y) > t_.atol + t_.rtol * std::fabs(y), i); }

  void add(double x, double y, bool differs, int64_t i) {
    ++elements_;
    if (std::isnan(x) && std::isnan(y)) return;
    if (!std::isfinite(x) || !std::isfinite(y)) {
      if (x == y) return;
      ++(std::isfinite(x) ? lost_ : wrong_);
      return count(r_, i);
    }
    add_sign(x, y, i);
    const double difference = std::fabs(x - y);
    largest_[0] = std::max(largest_[0], std::fabs(x));
    largest_[1] = std::max(largest_[1], std::fabs(y));
    outlier_.see(difference - t_.norm_error * std::fabs(y), i);
    r_.max_abs = std::max(r_.max_abs, difference);
    if (y != 0) r_.max_rel = std::max(r_.max_rel, difference / std::fabs(y));
    if (differs) count(r_, i);
    const double a = x * scale_, b = y * scale_;
    dot_ += a * b;
    aa_ += a * a;
    bb_ += b * b;
    dd_ += (a - b) * (a - b);
  }

  // `exact`: of integers, whose figures are information alone.
  Judgement verdict(bool exact) {
    constexpr double kInf = std::numeric_limits<double>::infinity();
    r_.not_finite = wrong_ + lost_;
    const bool whole = r_.not_finite == 0;
    if (!whole || aa_ == 0 || bb_ == 0) r_.cosine = whole && aa_ == bb_ ? 1 : 0;
    else r_.cosine = std::clamp(dot_ / (std::sqrt(aa_) * std::sqrt(bb_)), -1.0, 1.0);
    if (!whole || bb_ == 0) r_.norm_error = whole && dd_ == 0 ? 0 : kInf;
    else r_.norm_error = std::sqrt(dd_ / bb_);
    r_.message = exact ? different() : reason();
    r_.pass = r_.message.empty();
    if (!r_.pass && r_.first_mismatch < 0) r_.first_mismatch = 0;
    return std::move(r_);
  }

 private:
  // The largest magnitudes of expected elements of one sign, by whether the results have it.
  struct Signs {
    double kept = 0;
    Extreme lost;
  };

  void add_sign(double x, double y, int64_t i) {
    Signs& s = signs_[y < 0];
    if (y < 0 ? x < 0 : x > 0) s.kept = std::max(s.kept, std::fabs(y));
    else s.lost.see(std::fabs(y), i);
  }

  std::string share(int64_t n) const { return std::to_string(n) + " of " + std::to_string(elements_); }
  std::string first() const { return ", first at " + std::to_string(r_.first_mismatch); }

  std::string different() const { return r_.mismatches > 0 ? share(r_.mismatches) + " elements differ" + first() : ""; }

  // Why the results fail, or empty.
  std::string reason() {
    const double noise = kNoiseOfAtol * t_.atol;
    if (wrong_ > 0 || lost_ > 0) {
      std::string out = wrong_ > 0 ? share(wrong_) + " not finite" : "";
      if (lost_ > 0) out += (out.empty() ? "" : ", ") + share(lost_) + " finite where they should not be";
      return out + first();
    }
    if (largest_[0] == 0 && largest_[1] > std::max(kZero, noise)) return "all are 0, expected up to " + shortest(largest_[1]);
    for (const Signs& s : signs_)
      if (largest_[1] > noise && s.lost.value >= kClear * largest_[1] && s.kept < kClear * largest_[1]) {
        r_.first_mismatch = s.lost.index;
        return "signs are lost, as at " + std::to_string(s.lost.index);
      }
    const bool relative = largest_[1] > noise;
    if (!t_.cosine || !relative) {
      if (r_.mismatches > 0) return different();
      return relative ? norm_reason() : "";
    }
    if (!(r_.cosine >= *t_.cosine)) return "cosine " + digits(r_.cosine) + " is below " + shortest(*t_.cosine);
    if (std::string out = norm_reason(); !out.empty()) return out;
    const double rms = std::sqrt(bb_ / static_cast<double>(elements_)) / scale_;
    if (!std::isfinite(t_.norm_error) || outlier_.value <= t_.norm_error * kOutlier * rms) return {};
    r_.first_mismatch = outlier_.index;
    return "element " + std::to_string(outlier_.index) + " is off by far more than the others";
  }

  std::string norm_reason() const {
    return r_.norm_error <= t_.norm_error ? "" : "norm error " + digits(r_.norm_error) + " is above " + digits(t_.norm_error);
  }

  const Tolerance& t_;
  double scale_;
  Judgement r_;
  int64_t elements_ = 0, wrong_ = 0, lost_ = 0;
  double dot_ = 0, aa_ = 0, bb_ = 0, dd_ = 0, largest_[2] = {0, 0};
  Extreme outlier_;
  Signs signs_[2];
};

// Calls f(x, y, i) with each pair of elements.
template <class F>
void each_pair(const TensorData& a, const TensorData& b, F f) {
  const int64_t n = a.elements();
  if (is_complex(a.dtype)) {
    const auto x = load_all<Complex>(a), y = load_all<Complex>(b);
    for (int64_t i = 0; i < n; ++i) {
      f(x[static_cast<size_t>(i)].real(), y[static_cast<size_t>(i)].real(), i);
      f(x[static_cast<size_t>(i)].imag(), y[static_cast<size_t>(i)].imag(), i);
    }
    return;
  }
  constexpr int64_t kBlock = 1024;
  double x[kBlock], y[kBlock];
  for (int64_t at = 0; at < n; at += kBlock) {
    const int64_t m = std::min(kBlock, n - at);
    load(a, at, m, x);
    load(b, at, m, y);
    for (int64_t i = 0; i < m; ++i) f(x[i], y[i], at + i);
  }
}

// Returns 1, or a power of 2 by which values of f64 are multiplied so that their squares are in range.
double scale_of(const TensorData& a, const TensorData& b) {
  if (a.dtype != DType::F64 && a.dtype != DType::C128) return 1;
  double largest = 0;
  each_pair(a, b, [&](double x, double y, int64_t) {
    for (double v : {x, y})
      if (std::isfinite(v)) largest = std::max(largest, std::fabs(v));
  });
  return largest == 0 || (largest < 1e100 && largest > 1e-100) ? 1 : std::ldexp(1, -std::clamp(std::ilogb(largest), -1000, 1000));
}

Judgement judge_items(const HostValue& actual, const HostValue& expected, const Tolerance& t) {
  if (actual.items.size() != expected.items.size())
    return not_comparable(std::to_string(actual.items.size()) + " elements, expected " + std::to_string(expected.items.size()));
  Judgement r;
  r.pass = true;
  for (size_t i = 0; i < actual.items.size(); ++i) {
    const Judgement item = judge(actual.items[i], expected.items[i], t);
    r.max_abs = std::max(r.max_abs, item.max_abs);
    r.max_rel = std::max(r.max_rel, item.max_rel);
    r.cosine = std::min(r.cosine, item.cosine);
    r.norm_error = std::max(r.norm_error, item.norm_error);
    r.mismatches += item.mismatches;
    r.not_finite += item.not_finite;
    if (item.pass || !r.pass) continue;
    r.pass = false;
    r.first_mismatch = static_cast<int64_t>(i);
    r.message = "element " + std::to_string(i) + ": " + item.message;
  }
  return r;
}

}  // namespace

std::string Tolerance::text() const {
  if (!cosine) return "rtol " + shortest(rtol) + ", atol " + shortest(atol);
  return "cosine at least " + shortest(*cosine) + ", norm error at most " + digits(norm_error);
}

double norm_error_at(double cosine) { return std::sqrt(std::max(0.0, 2 - 2 * cosine)); }

Tolerance similar(double cosine) {
  return {.rtol = 1e-3, .atol = 1e-5, .cosine = cosine, .norm_error = norm_error_at(cosine), .integers = true};
}

Judgement judge(const HostValue& actual, const HostValue& expected, const Tolerance& t) {
  if (actual.kind != expected.kind)
    return not_comparable("is " + std::string(kind_name(actual.kind)) + ", expected " + std::string(kind_name(expected.kind)));
  if (actual.kind != TypeKind::Tensor) return judge_items(actual, expected, t);
  const TensorData &a = actual.tensor, &b = expected.tensor;
  if (a.dtype != b.dtype)
    return not_comparable("element type " + std::string(name(a.dtype)) + ", expected " + std::string(name(b.dtype)));
  if (a.dims != b.dims) return not_comparable("shape " + show(a.dtype, a.dims) + ", expected " + show(b.dtype, b.dims));
  const int64_t n = a.elements();
  if (is_float(a.dtype) || is_complex(a.dtype)) {
    Judge figures(t, scale_of(a, b));
    each_pair(a, b, [&](double x, double y, int64_t i) { figures.add(x, y, i); });
    return figures.verdict(false);
  }
  Judge figures(t, 1);
  for (int64_t i = 0; i < n; ++i) {
    if (a.dtype == DType::String) {
      const bool same = a.strings[static_cast<size_t>(a.splat ? 0 : i)] == b.strings[static_cast<size_t>(b.splat ? 0 : i)];
      figures.add(same, 1, !same, i);
    } else if (const int64_t x = load_int(a, i), y = load_int(b, i); a.dtype == DType::U64) {
      figures.add(static_cast<double>(static_cast<uint64_t>(x)), static_cast<double>(static_cast<uint64_t>(y)), x != y, i);
    } else {
      figures.add(static_cast<double>(x), static_cast<double>(y), x != y, i);
    }
  }
  return figures.verdict(a.dtype == DType::String || !t.cosine || !t.integers);
}

Comparison compare(const HostValue& actual, const HostValue& expected, double rtol, double atol) {
  return judge(actual, expected, {.rtol = rtol, .atol = atol});
}

}  // namespace rlxc::eval
