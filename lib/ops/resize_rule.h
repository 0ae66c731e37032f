// The rules of ONNX Resize (operator Resize, opset 19) for any kind of number T: double, an expression of the kernel language, a
// value of a graph. Beside arithmetic and comparisons, also with doubles, T has floor, ceil, abs, max, select(condition, T, T)
// and lit(like, double), a literal.
#pragma once
#include <cmath>
#include <cstdlib>

#include "ir/attrs.h"

namespace rlxc::ops {

inline double select(bool condition, double a, double b) { return condition ? a : b; }
inline double lit(double, double v) { return v; }

// The sizes of an axis, and result / operand as the coordinate rule uses it.
template <class T>
struct ResizeNumbers {
  T in, out, scale;
  double roi_start = 0, roi_end = 1;
};

// The source coordinate of result coordinate x.
template <class T>
T source_coordinate(CoordMode mode, const ResizeNumbers<T>& k, const T& x) {
  using std::max;
  const auto half_pixel = [&] { return (x + 0.5) / k.scale - 0.5; };
  switch (mode) {
    case CoordMode::HalfPixel: return half_pixel();
    case CoordMode::HalfPixelSymmetric: return k.in * 0.5 * (1.0 - k.out / (k.scale * k.in)) + half_pixel();
    case CoordMode::PytorchHalfPixel: return select(k.out > 1.0, half_pixel(), lit(x, 0.0));
    case CoordMode::AlignCorners: {
      const T length = k.scale * k.in;
      return select(length == 1.0, lit(x, 0.0), x * (k.in - 1.0) / select(length == 1.0, lit(x, 1.0), length - 1.0));
    }
    case CoordMode::Asymmetric: return x / k.scale;
    case CoordMode::TfHalfPixelForNn: return (x + 0.5) / k.scale;
    case CoordMode::TfCropAndResize: {
      const T last = k.in - 1.0;
      return select(k.out > 1.0, k.roi_start * last + x * (k.roi_end - k.roi_start) * last / max(k.out - 1.0, 1.0),
                    0.5 * (k.roi_start + k.roi_end) * last);
    }
  }
  return x;
}

// The whole coordinate that stands for x.
template <class T>
T nearest_coordinate(NearestMode mode, const T& x) {
  using std::ceil, std::floor;
  switch (mode) {
    case NearestMode::RoundPreferFloor: return ceil(x - 0.5);
    case NearestMode::RoundPreferCeil: return floor(x + 0.5);
    case NearestMode::Floor: return floor(x);
    case NearestMode::Ceil: return ceil(x);
  }
  return x;
}

// The interpolation at distance x: a tent, or Keys' cubic (1981).
template <class T>
T interpolation_weight(ResizeMode mode, double a, const T& x) {
  using std::abs, std::max;
  const T d = abs(x);
  if (mode == ResizeMode::Linear) return max(1.0 - d, 0.0);
  return select(d <= 1.0, ((a + 2) * d - (a + 3)) * d * d + 1.0,
                select(d < 2.0, ((a * d - 5 * a) * d + 8 * a) * d - 4 * a, lit(d, 0.0)));
}

}  // namespace rlxc::ops
