// ONNX Resize, axis by axis: every result coordinate is a weighted sum of source coordinates.
#include "ops/resize.h"

#include <algorithm>

#include "eval/norm.h"

namespace rlxc::eval {
namespace {

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
    const ops::ResizeAxis axis = ops::resize_axis(a, k, in, out);
    if (!ops::resizes(a, axis)) continue;
    if (in == 0 && out > 0) return c.fail("cannot resize an empty axis");
    if (!(axis.scale >= axis.kMinScale && axis.scale <= axis.kMaxScale))
      return c.fail("scale " + std::to_string(axis.scale) + " is out of range");
    const Split s = split_at(now, static_cast<int64_t>(k));
    now[k] = out;
    if (!c.charge(4.0 * static_cast<double>(product(now)) / (a.antialias ? std::min(axis.scale, 1.0) : 1.0))) return false;
    std::vector<double> y(static_cast<size_t>(product(now)));
    for (int64_t j = 0; j < out; ++j) {
      const auto t = ops::resize_taps(a, axis, j);
      if (!t) return c.fail("source coordinates are out of range");
      for (int64_t o = 0; o < s.outer; ++o) {
        double* to = y.data() + (o * out + j) * s.inner;
        if (t->outside) {
          std::fill_n(to, s.inner, a.extrapolation);
          continue;
        }
        for (size_t p = 0; p < t->at.size(); ++p) {
          const double* from = x.data() + (o * in + t->at[p]) * s.inner;
          for (int64_t i = 0; i < s.inner; ++i) to[i] += t->weight[p] * from[i];
        }
      }
    }
    x = std::move(y);
  }
  return put_rounded(c, std::move(x), kResultScale);
}

}  // namespace

std::span<const Entry> resize_evaluators() {
  static constexpr Entry kTable[] = {{OpKind::Resize, eval_resize}};
  return kTable;
}

}  // namespace rlxc::eval
