// ONNX Resize (opset 19) along one axis: every result coordinate is a weighted sum of a few source coordinates.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "ir/attrs.h"
#include "ops/scalar.h"

namespace rlxc::ops {

struct ResizeAxis {
  int64_t in = 0, out = 0;
  bool derived = true;  // the scale is computed from the sizes
  double scale = 1;     // result / operand for the coordinate rule, in [kMinScale, kMaxScale]
  double roi_start = 0, roi_end = 1;
  static constexpr double kMinScale = 1e-6, kMaxScale = 1e6;
};
ResizeAxis resize_axis(const ResizeAttrs&, size_t axis, int64_t in, int64_t out);
bool resizes(const ResizeAttrs&, const ResizeAxis&);  // false: the axis is unchanged

struct ResizeTaps {
  std::vector<int64_t> at;     // source coordinates in [0, in)
  std::vector<double> weight;  // their sum is 1
  bool outside = false;        // outside of the region of tf_crop_and_resize: the result is the extrapolation value
};
// The taps of result coordinate x; their number is constant along an axis. Nullopt if the source coordinate is out of range.
std::optional<ResizeTaps> resize_taps(const ResizeAttrs&, const ResizeAxis&, int64_t x);

// The rules below work on numbers and on kernel expressions.

// A source coordinate over / under. Both are exact if the operands are.
template <class V>
struct ResizeCoordinate {
  V over, under;
};
// The source of result coordinate x by coordinate_transformation_mode. The scale is p / q; `derived` as above; `several`: out >
// 1.
template <class V, class Condition>
ResizeCoordinate<V> resize_source(const ResizeAttrs& a, const V& x, const V& in, const V& out, const V& p, const V& q,
                                  const Condition& several, double roi_start, double roi_end) {
  const bool derived = a.scales.empty();
  const V last = in - 1, zero = lit(x, 0), one = lit(x, 1), middle = (x * 2 + 1) * q;
  switch (a.coord) {
    case CoordMode::HalfPixel: return {middle - p, p * 2};
    case CoordMode::HalfPixelSymmetric: return {middle - p + in * p - out * q, p * 2};
    case CoordMode::PytorchHalfPixel: return {select(several, middle - p, zero), p * 2};
    case CoordMode::AlignCorners: {
      const V steps = derived ? out - 1 : in * p - q;
      return {select(steps == 0, zero, x * last * (derived ? one : q)), select(steps == 0, one, steps)};
    }
    case CoordMode::Asymmetric: return {x * q, p};
    case CoordMode::TfHalfPixelForNn: return {middle, p * 2};
    case CoordMode::TfCropAndResize:
      return {select(several, roi_start * last + x * (roi_end - roi_start) * last / max(out - 1, 1),
                     (0.5 * (roi_start + roi_end)) * last),
              one};
  }
  return {x, one};
}

// The nearest source coordinate.
template <class V>
V resize_nearest(NearestMode mode, const V& x) {
  switch (mode) {
    case NearestMode::RoundPreferFloor: return ceil(x - 0.5);
    case NearestMode::RoundPreferCeil: return floor(x + 0.5);
    case NearestMode::Floor: return floor(x);
    case NearestMode::Ceil: return ceil(x);
  }
  return x;
}

// Interpolation weight at distance x: linear, or the cubic of Keys (1981).
template <class V>
V resize_weight(ResizeMode mode, double a, const V& x) {
  const V d = abs(x), zero = lit(x, 0.0);
  if (mode == ResizeMode::Linear) return max(1.0 - d, 0.0);
  const V near = ((a + 2) * d - (a + 3)) * d * d + 1.0, far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
  return select(d <= 1.0, near, select(d < 2.0, far, zero));
}

}  // namespace rlxc::ops
