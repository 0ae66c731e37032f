#include "ops/resize.h"

#include <algorithm>
#include <cmath>

namespace rlxc::ops {
namespace {

// The source coordinate of result coordinate x (ONNX operator Resize, coordinate_transformation_mode), as one quotient whose
// parts are exact, so that sizes alone decide where the nearest one changes.
double source_coordinate(CoordMode mode, const ResizeAxis& k, double x) {
  const double in = static_cast<double>(k.in), out = static_cast<double>(k.out), last = in - 1;
  const double p = k.derived ? out : k.scale, q = k.derived ? in : 1;  // scale = p / q
  const double half_pixel = ((2 * x + 1) * q - p) / (2 * p);
  switch (mode) {
    case CoordMode::HalfPixel: return half_pixel;
    case CoordMode::HalfPixelSymmetric: return ((2 * x + 1) * q - p + in * p - out * q) / (2 * p);
    case CoordMode::PytorchHalfPixel: return out > 1 ? half_pixel : 0;
    case CoordMode::AlignCorners: {
      const double length = k.derived ? out : in * p;
      return length == 1 ? 0 : x * last / (length - 1);
    }
    case CoordMode::Asymmetric: return x * q / p;
    case CoordMode::TfHalfPixelForNn: return (2 * x + 1) * q / (2 * p);
    case CoordMode::TfCropAndResize:
      return out > 1 ? k.roi_start * last + x * (k.roi_end - k.roi_start) * last / (out - 1)
                     : 0.5 * (k.roi_start + k.roi_end) * last;
  }
  return x;
}

int64_t nearest(NearestMode mode, double x) {
  switch (mode) {
    case NearestMode::RoundPreferFloor: return static_cast<int64_t>(std::ceil(x - 0.5));
    case NearestMode::RoundPreferCeil: return static_cast<int64_t>(std::floor(x + 0.5));
    case NearestMode::Floor: return static_cast<int64_t>(std::floor(x));
    case NearestMode::Ceil: return static_cast<int64_t>(std::ceil(x));
  }
  return 0;
}

// The kernel of the interpolation at distance x: a tent, or Keys' cubic (1981).
double kernel(ResizeMode mode, double a, double x) {
  x = std::fabs(x);
  if (mode == ResizeMode::Linear) return std::max(0.0, 1 - x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

}  // namespace

ResizeAxis resize_axis(const ResizeAttrs& a, size_t axis, int64_t in, int64_t out) {
  ResizeAxis k{in, out, a.scales.empty()};
  k.scale = k.derived ? static_cast<double>(out) / static_cast<double>(in) : a.scales[axis];
  if (!a.roi.empty()) k.roi_start = a.roi[axis], k.roi_end = a.roi[a.roi.size() / 2 + axis];
  return k;
}

bool resizes(const ResizeAttrs& a, const ResizeAxis& k) {
  return k.in != k.out || k.scale != 1 || a.coord == CoordMode::TfCropAndResize;
}

std::optional<ResizeTaps> resize_taps(const ResizeAttrs& a, const ResizeAxis& k, int64_t result) {
  const int64_t in = k.in;
  const double x = source_coordinate(a.coord, k, static_cast<double>(result));
  if (!(std::fabs(x) < 1e15)) return std::nullopt;
  ResizeTaps t;
  t.outside = a.coord == CoordMode::TfCropAndResize && (x < 0 || x > static_cast<double>(in - 1));
  if (a.mode == ResizeMode::Nearest) {
    t.at = {std::clamp<int64_t>(nearest(a.nearest, x), 0, in - 1)}, t.weight = {1};
    return t;
  }
  // An antialiasing filter is as wide as the source pixels that one result pixel covers.
  const double shrink = a.antialias ? std::min(k.scale, 1.0) : 1.0;
  const double radius = a.mode == ResizeMode::Linear ? 1 : 2;
  const auto start = static_cast<int64_t>(std::floor(-radius / shrink)) + 1, end = 2 - start;
  double base = std::floor(x), ratio = x - base, sum = 0;
  if (ratio == 0) base -= 1, ratio = 1;
  for (int64_t i = start; i < end; ++i) {
    const int64_t at = static_cast<int64_t>(base) + i;
    double w = kernel(a.mode, a.cubic_a, (static_cast<double>(i) - ratio) * shrink);
    if (a.exclude_outside && (at < 0 || at >= in)) w = 0;
    t.at.push_back(std::clamp<int64_t>(at, 0, in - 1)), t.weight.push_back(w);
    sum += w;
  }
  for (double& w : t.weight) w /= sum;
  return t;
}

}  // namespace rlxc::ops
