#include "ops/resize.h"

#include <algorithm>
#include <cmath>

namespace rlxc::ops {
namespace {

double source_coordinate(const ResizeAttrs& a, const ResizeAxis& k, double x) {
  const double in = static_cast<double>(k.in), out = static_cast<double>(k.out);
  const auto c = resize_source(a, x, in, out, k.derived ? out : k.scale, k.derived ? in : 1, out > 1, k.roi_start, k.roi_end);
  return c.over / c.under;
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
  const double x = source_coordinate(a, k, static_cast<double>(result));
  if (!(std::fabs(x) < 1e15)) return std::nullopt;
  ResizeTaps t;
  t.outside = a.coord == CoordMode::TfCropAndResize && (x < 0 || x > static_cast<double>(in - 1));
  if (a.mode == ResizeMode::Nearest) {
    t.at = {std::clamp<int64_t>(static_cast<int64_t>(resize_nearest(a.nearest, x)), 0, in - 1)}, t.weight = {1};
    return t;
  }
  // An antialiasing filter covers all source pixels under a result pixel.
  const double shrink = a.antialias ? std::min(k.scale, 1.0) : 1.0;
  const double radius = a.mode == ResizeMode::Linear ? 1 : 2;
  const auto start = static_cast<int64_t>(std::floor(-radius / shrink)) + 1, end = 2 - start;
  double base = std::floor(x), ratio = x - base, sum = 0;
  if (ratio == 0) base -= 1, ratio = 1;
  for (int64_t i = start; i < end; ++i) {
    const int64_t at = static_cast<int64_t>(base) + i;
    double w = resize_weight(a.mode, a.cubic_a, (static_cast<double>(i) - ratio) * shrink);
    if (a.exclude_outside && (at < 0 || at >= in)) w = 0;
    t.at.push_back(std::clamp<int64_t>(at, 0, in - 1)), t.weight.push_back(w);
    sum += w;
  }
  for (double& w : t.weight) w /= sum;
  return t;
}

}  // namespace rlxc::ops
