// Compares results with expected values.
#include <algorithm>
#include <cmath>

#include "eval/tensor.h"

namespace rlxc::eval {
namespace {

std::string_view kind_name(TypeKind k) {
  static constexpr std::string_view kNames[] = {"a tensor", "a sequence", "an optional", "a map"};
  return kNames[static_cast<size_t>(k)];
}

void count(Comparison& r, int64_t i) {
  if (r.mismatches++ == 0) r.first_mismatch = i;
}

void compare_floats(const TensorData& a, const TensorData& b, double rtol, double atol, Comparison& r) {
  double dot = 0, aa = 0, bb = 0;
  auto element = [&](double x, double y, int64_t i) {
    if (std::isnan(x) && std::isnan(y)) return;
    if (x == y)
      return void((dot += std::isfinite(x) ? x * y : 0, aa += std::isfinite(x) ? x * x : 0, bb += std::isfinite(x) ? y * y : 0));
    if (!std::isfinite(x) || !std::isfinite(y)) return count(r, i);
    dot += x * y, aa += x * x, bb += y * y;
    const double difference = std::fabs(x - y);
    r.max_abs = std::max(r.max_abs, difference);
    if (y != 0) r.max_rel = std::max(r.max_rel, difference / std::fabs(y));
    if (difference > atol + rtol * std::fabs(y)) count(r, i);
  };
  const int64_t n = a.elements();
  if (is_complex(a.dtype)) {
    const auto x = load_all<Complex>(a), y = load_all<Complex>(b);
    for (int64_t i = 0; i < n; ++i)
      element(x[static_cast<size_t>(i)].real(), y[static_cast<size_t>(i)].real(), i),
          element(x[static_cast<size_t>(i)].imag(), y[static_cast<size_t>(i)].imag(), i);
  } else {
    constexpr int64_t kBlock = 1024;
    double x[kBlock], y[kBlock];
    for (int64_t at = 0; at < n; at += kBlock) {
      const int64_t m = std::min(kBlock, n - at);
      load(a, at, m, x), load(b, at, m, y);
      for (int64_t i = 0; i < m; ++i) element(x[i], y[i], at + i);
    }
  }
  if (aa > 0 && bb > 0) r.cosine = dot / (std::sqrt(aa) * std::sqrt(bb));
}

}  // namespace

Comparison compare(const HostValue& actual, const HostValue& expected, double rtol, double atol) {
  Comparison r;
  if (actual.kind != expected.kind)
    return r.message = "is " + std::string(kind_name(actual.kind)) + ", expected " + std::string(kind_name(expected.kind)), r;
  if (actual.kind != TypeKind::Tensor) {
    if (actual.items.size() != expected.items.size())
      return r.message = std::to_string(actual.items.size()) + " elements, expected " + std::to_string(expected.items.size()), r;
    r.pass = true;
    for (size_t i = 0; i < actual.items.size(); ++i) {
      const Comparison item = compare(actual.items[i], expected.items[i], rtol, atol);
      r.pass &= item.pass;
      r.max_abs = std::max(r.max_abs, item.max_abs), r.max_rel = std::max(r.max_rel, item.max_rel),
      r.cosine = std::min(r.cosine, item.cosine);
      r.mismatches += item.mismatches;
      if (!item.pass && r.first_mismatch < 0)
        r.first_mismatch = static_cast<int64_t>(i), r.message = "element " + std::to_string(i) + ": " + item.message;
    }
    return r;
  }
  const TensorData &a = actual.tensor, &b = expected.tensor;
  if (a.dtype != b.dtype)
    return r.message = "element type " + std::string(name(a.dtype)) + ", expected " + std::string(name(b.dtype)), r;
  if (a.dims != b.dims) return r.message = "shape " + show(a.dtype, a.dims) + ", expected " + show(b.dtype, b.dims), r;
  if (a.dtype == DType::String) {
    for (int64_t i = 0; i < a.elements(); ++i)
      if (a.strings[static_cast<size_t>(a.splat ? 0 : i)] != b.strings[static_cast<size_t>(b.splat ? 0 : i)]) count(r, i);
  } else if (is_float(a.dtype) || is_complex(a.dtype)) {
    compare_floats(a, b, rtol, atol, r);
  } else {
    for (int64_t i = 0; i < a.elements(); ++i) {
      const int64_t x = load_int(a, i), y = load_int(b, i);
      if (x == y) continue;
      count(r, i);
      r.max_abs = std::max(r.max_abs, std::fabs(static_cast<double>(x) - static_cast<double>(y)));
    }
  }
  r.pass = r.mismatches == 0;
  if (!r.pass)
    r.message = std::to_string(r.mismatches) + " of " + std::to_string(a.elements()) + " elements differ, first at " +
                std::to_string(r.first_mismatch);
  return r;
}

}  // namespace rlxc::eval
