// ONNX Resize, axis by axis: every result coordinate is a weighted sum of a few source coordinates of its axis.
#include <algorithm>

#include "eval/context.h"

namespace rlxc::eval {
namespace {

struct Taps {
  std::vector<int64_t> at;
  std::vector<double> weight;
  bool outside = false;  // beyond the region of tf_crop_and_resize
};

// The source coordinate of result coordinate x (ONNX operator Resize, coordinate_transformation_mode).
double source_coordinate(CoordMode mode, double x, int64_t in, int64_t out, double scale, double roi_start, double roi_end) {
  const double length = scale * static_cast<double>(in), last = static_cast<double>(in - 1);
  switch (mode) {
    case CoordMode::HalfPixel: return (x + 0.5) / scale - 0.5;
    case CoordMode::HalfPixelSymmetric: {
      const double adjustment = static_cast<double>(out) / length, centre = static_cast<double>(in) / 2;
      return centre * (1 - adjustment) + (x + 0.5) / scale - 0.5;
    }
    case CoordMode::PytorchHalfPixel: return out > 1 ? (x + 0.5) / scale - 0.5 : 0;
    case CoordMode::AlignCorners: return length == 1 ? 0 : x * last / (length - 1);
    case CoordMode::Asymmetric: return x / scale;
    case CoordMode::TfHalfPixelForNn: return (x + 0.5) / scale;
    case CoordMode::TfCropAndResize:
      return out > 1 ? roi_start * last + x * (roi_end - roi_start) * last / static_cast<double>(out - 1)
                     : 0.5 * (roi_start + roi_end) * last;
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

Taps taps_of(const ResizeAttrs& a, double x, int64_t in, double scale) {
  Taps t;
  if (a.mode == ResizeMode::Nearest) {
    t.at = {std::clamp<int64_t>(nearest(a.nearest, x), 0, in - 1)}, t.weight = {1};
    return t;
  }
  // An antialiasing filter is as wide as the source pixels that one result pixel covers.
  const double shrink = a.antialias ? std::min(scale, 1.0) : 1.0;
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

bool eval_resize(Context& c) {
  const auto& a = c.a<ResizeAttrs>();
  const auto dims = c.result_dims();
  std::vector<int64_t> now = c.dims(0);
  const size_t rank = dims.size();
  if (a.coord == CoordMode::TfCropAndResize && a.roi.size() != 2 * rank)
    return c.fail("tf_crop_and_resize needs a start and an end per axis");
  auto x = c.doubles(0);
  for (size_t k = 0; k < rank; ++k) {
    const int64_t in = now[k], out = dims[k];
    const double scale = a.scales.empty() ? static_cast<double>(out) / static_cast<double>(in) : a.scales[k];
    if (in == out && scale == 1 && a.coord != CoordMode::TfCropAndResize) continue;
    if (in == 0 && out > 0) return c.fail("cannot resize an empty axis");
    if (!(scale > 0) || scale > 1e6 || scale < 1e-6) return c.fail("scale " + std::to_string(scale) + " is out of range");
    const Split s = split_at(now, static_cast<int64_t>(k));
    now[k] = out;
    if (!c.charge(4.0 * static_cast<double>(product(now)) / (a.antialias ? std::min(scale, 1.0) : 1.0))) return false;
    std::vector<double> y(static_cast<size_t>(product(now)));
    for (int64_t j = 0; j < out; ++j) {
      const double at = source_coordinate(a.coord, static_cast<double>(j), in, out, scale, a.roi.empty() ? 0 : a.roi[k],
                                          a.roi.empty() ? 1 : a.roi[rank + k]);
      if (!(std::fabs(at) < 1e15)) return c.fail("source coordinates are out of range");
      Taps t = taps_of(a, at, in, scale);
      t.outside = a.coord == CoordMode::TfCropAndResize && (at < 0 || at > static_cast<double>(in - 1));
      for (int64_t o = 0; o < s.outer; ++o) {
        double* to = y.data() + (o * out + j) * s.inner;
        if (t.outside) {
          std::fill_n(to, s.inner, a.extrapolation);
          continue;
        }
        for (size_t p = 0; p < t.at.size(); ++p) {
          const double* from = x.data() + (o * in + t.at[p]) * s.inner;
          for (int64_t i = 0; i < s.inner; ++i) to[i] += t.weight[p] * from[i];
        }
      }
    }
    x = std::move(y);
  }
  return c.put_result(0, x);
}

}  // namespace

std::span<const Entry> resize_evaluators() {
  static constexpr Entry kTable[] = {{OpKind::Resize, eval_resize}};
  return kTable;
}

}  // namespace rlxc::eval
