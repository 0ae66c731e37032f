// Resize and its predecessor Upsample.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "import/onnx/attention.h"
#include "import/onnx/dynamic.h"
#include "import/onnx/handlers.h"
#include "support/saturate.h"
#include "support/text.h"

namespace rlxc::onnx_import {
namespace {

// Returns floor(size * scale) if the scale is the f32 nearest to a small fraction. Exact for sizes up to millions. A scale
// rounded below its fraction misses every whole multiple.
std::optional<Dim> scaled_by_fraction(DimTable& t, Dim size, double scale) {
  constexpr int64_t kMost = 4096;
  for (int64_t below = 1; below <= kMost; ++below) {
    const auto above = static_cast<int64_t>(std::lround(scale * static_cast<double>(below)));
    const double fraction = static_cast<double>(above) / static_cast<double>(below);
    if (above < 1 || above > kMost || static_cast<float>(fraction) != static_cast<float>(scale)) continue;
    return t.floor_div(t.sub(t.mul(size, Dim(above)), Dim(fraction > scale ? 1 : 0)), Dim(below));
  }
  return std::nullopt;
}

// Sets sizes to floor(size * scale). Numeric scales are also stored for the coordinate rule.
bool scaled_sizes(Op& op, const Known& scales, const std::vector<int64_t>& axes, ResizeAttrs* a) {
  DimTable& t = op.dims();
  bool numbers = true;
  std::vector<double> reals(a->sizes.size(), 1);
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<size_t>(axes[i]);
    const Num& s = scales.v[i];
    const Dim size = op.sizes(0)[axis];
    if (const auto n = t.constant_value(size); n && s.is_real) {
      if (!(s.real > 0) || s.real > 1e6)
        return op.fail(Code::BadAttribute, "scale " + std::to_string(s.real) + " is out of range");
      a->sizes[axis] = Dim(saturating_cast<int64_t>(std::floor(static_cast<double>(*n) * s.real)));
      reals[axis] = s.real;
      continue;
    }
    if (s.is_real) reals[axis] = s.real;
    else numbers = false;
    if (const auto scaled = s.is_real ? scaled_by_fraction(t, size, s.real) : std::nullopt) {
      a->sizes[axis] = *scaled;
      continue;
    }
    const auto r = num_mul(t, DType::F64, Num{size}, s);
    const auto whole = r ? num_floor(t, DType::F64, *r) : std::nullopt;
    if (!whole || whole->is_real)
      return op.unsupported("the scale of axis " + std::to_string(axis) + " has no exact form for a symbolic size");
    a->sizes[axis] = whole->num;
  }
  if (numbers) a->scales = std::move(reals);
  return true;
}

bool fit_aspect_ratio(Op& op, std::string_view policy, const std::vector<int64_t>& axes, ResizeAttrs* a) {
  double ratio = 0;
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto have = op.dims().constant_value(op.sizes(0)[static_cast<size_t>(axes[i])]),
               want = op.dims().constant_value(a->sizes[static_cast<size_t>(axes[i])]);
    if (!have || !want || *have < 1) return op.unsupported("keep_aspect_ratio_policy needs known sizes");
    const double r = static_cast<double>(*want) / static_cast<double>(*have);
    ratio = i == 0 ? r : policy == "not_larger" ? std::min(ratio, r) : std::max(ratio, r);
  }
  a->scales.assign(a->sizes.size(), 1);
  for (int64_t axis : axes) {
    const auto k = static_cast<size_t>(axis);
    a->scales[k] = ratio;
    a->sizes[k] = Dim(saturating_cast<int64_t>(std::floor(ratio * static_cast<double>(op.sizes(0)[k].size()) + 0.5)));
  }
  return true;
}

// tf_crop_and_resize with a data-dependent region: axis by axis, by gathers.
void resize_region(Op& op, const ResizeAttrs& a, const std::vector<int64_t>& axes) {
  if (a.mode == ResizeMode::Cubic || a.antialias)
    return (void)op.unsupported("a computed roi with cubic or antialiased resizing");
  Builder& b = op.b;
  const auto number = [&](double v) { return b.scalar(DType::F32, v); };
  const auto binary = [&](OpKind kind, ValueId x, ValueId y) { return b.create(kind, {x, y}); };
  ValueId x = op.in(0), outside;
  const DType t = op.dtype(0);
  const auto count = static_cast<int64_t>(axes.size());
  for (int64_t i = 0; i < count; ++i) {
    const auto axis = static_cast<size_t>(axes[static_cast<size_t>(i)]);
    const Dim have = op.sizes(0)[axis], want = a.sizes[axis];
    if (have == want && constant_element(op, op.in(1), i) == 0 && constant_element(op, op.in(1), count + i) == 1) continue;
    const auto bound = [&](int64_t at) { return b.cast(b.reshape(b.narrow(op.in(1), 0, Dim(at), Dim(1)), {}), DType::F32); };
    const ValueId start = bound(i), end = bound(count + i);
    const ValueId last = b.cast(size_of(op, op.dims().sub(have, Dim(1))), DType::F32);
    const ValueId middle = b.mul(b.mul(b.add(start, end), last), number(0.5));
    ValueId at = b.reshape(middle, {Dim(1)});
    if (want != Dim(1)) {
      const ValueId steps = b.cast(size_of(op, op.dims().sub(want, Dim(1))), DType::F32);
      const ValueId step = b.div(b.mul(b.sub(end, start), last), binary(OpKind::Max, steps, number(1)));
      at = b.add(b.mul(start, last), b.mul(b.cast(positions(op, want), DType::F32), step));
      if (!op.dims().at_least(want, 2)) at = b.create(OpKind::Where, {binary(OpKind::Lt, steps, number(1)), middle, at});
    }
    std::vector<Dim> along(op.sizes(0).size(), Dim(1));
    along[axis] = want;
    const ValueId out = b.reshape(binary(OpKind::Or, binary(OpKind::Lt, at, number(0)), binary(OpKind::Gt, at, last)), along);
    outside = outside.valid() ? binary(OpKind::Or, outside, out) : out;
    const auto gathered = [&](ValueId place) {
      const ValueId index = binary(OpKind::Min, binary(OpKind::Max, place, number(0)), last);
      return b.create(OpKind::Gather, {x, b.cast(index, DType::I64)}, AxisAttrs{static_cast<int64_t>(axis)});
    };
    if (a.mode == ResizeMode::Nearest) {
      const auto half = [&](double v) { return b.add(at, number(v)); };
      x = gathered(a.nearest == NearestMode::RoundPreferFloor  ? b.unary(OpKind::Ceil, half(-0.5))
                   : a.nearest == NearestMode::RoundPreferCeil ? b.unary(OpKind::Floor, half(0.5))
                   : a.nearest == NearestMode::Floor           ? b.unary(OpKind::Floor, at)
                                                               : b.unary(OpKind::Ceil, at));
      continue;
    }
    const ValueId low = b.unary(OpKind::Floor, at), share = b.cast(b.reshape(b.sub(at, low), along), t);
    const ValueId below = gathered(low), above = gathered(b.add(low, number(1)));
    x = b.add(below, b.mul(b.sub(above, below), share));
  }
  if (outside.valid()) x = b.create(OpKind::Where, {outside, b.scalar(t, a.extrapolation), x});
  op.set(0, x);
}

// A resize to data-dependent sizes, or by data-dependent scales: axis by axis, by gathers with weights.
void resize_by_data(Op& op, const ResizeAttrs& a, const std::vector<int64_t>& axes, size_t input, bool by_scale) {
  if (a.antialias || a.exclude_outside || a.coord == CoordMode::TfCropAndResize)
    return (void)op.unsupported("data-dependent sizes with antialias, exclude_outside or tf_crop_and_resize");
  Builder& b = op.b;
  const ValueId list = op.in(input);
  const DType t = op.dtype(0), real = DType::F32;
  if (!list.valid() || op.rank(input) != 1 || !op.dims().need_equal(op.sizes(input)[0], Dim(std::ssize(axes))))
    return (void)op.fail(Code::BadShape, "needs " + std::to_string(axes.size()) + " numbers: " + op.show(input));
  const auto number = [&](double v) { return b.scalar(real, v); };
  const auto times = [&](ValueId x, double v) { return b.mul(x, number(v)); };
  ValueId x = op.in(0);
  if (!is_float(t)) x = b.cast(x, real);
  for (size_t i = 0; i < axes.size() && x.valid(); ++i) {
    const auto axis = static_cast<size_t>(axes[i]);
    const auto place = static_cast<int64_t>(i);
    const Dim have = op.sizes(0)[axis];
    const auto stated = known_element(op, list, place);
    if (stated && (by_scale ? *stated == Dim(1) : op.dims().equal(*stated, have))) continue;
    const ValueId entry = b.reshape(b.narrow(list, 0, Dim(place), Dim(1)), {});
    const ValueId in = b.cast(size_of(op, have), real);
    // The scale is p / q; sums of these integers are exact.
    const ValueId size =
        by_scale ? b.cast(b.unary(OpKind::Floor, b.mul(in, b.cast(entry, real))), DType::I64) : b.cast(entry, DType::I64);
    const ValueId out = b.cast(size, real), p = by_scale ? b.cast(entry, real) : out, q = by_scale ? number(1) : in;
    const ValueId index = stated && !by_scale ? positions(op, *stated) : iota(op, size);
    if (!index.valid()) return;
    const ValueId at = b.cast(index, real), middle = b.mul(b.add(times(at, 2), number(1)), q);
    ValueId over = b.sub(middle, p), under = times(p, 2);
    if (a.coord == CoordMode::HalfPixelSymmetric) over = b.add(over, b.sub(b.mul(in, p), b.mul(out, q)));
    if (a.coord == CoordMode::PytorchHalfPixel)
      over = b.create(OpKind::Where, {b.create(OpKind::Gt, {out, number(1)}), over, number(0)});
    if (a.coord == CoordMode::TfHalfPixelForNn) over = middle;
    if (a.coord == CoordMode::Asymmetric) {
      over = b.mul(at, q);
      under = p;
    }
    if (a.coord == CoordMode::AlignCorners) {
      const ValueId steps = by_scale ? b.sub(b.mul(in, p), q) : b.sub(out, number(1));
      const ValueId none = b.create(OpKind::Eq, {steps, number(0)});
      over = b.create(OpKind::Where, {none, number(0), b.mul(b.mul(at, b.sub(in, number(1))), by_scale ? q : number(1))});
      under = b.create(OpKind::Where, {none, number(1), steps});
    }
    const ValueId source = b.div(over, under), last = b.sub(in, number(1));
    std::vector<Dim> along(op.sizes(0).size(), Dim(1));
    along[axis] = op.graph().dims(index)[0];
    const auto gathered = [&](ValueId from) {
      const ValueId inside = b.create(OpKind::Min, {b.create(OpKind::Max, {from, number(0)}), last});
      return b.create(OpKind::Gather, {x, b.cast(inside, DType::I64)}, AxisAttrs{static_cast<int64_t>(axis)});
    };
    if (a.mode == ResizeMode::Nearest) {
      const auto shifted = [&](double v) { return b.add(source, number(v)); };
      x = gathered(a.nearest == NearestMode::RoundPreferFloor  ? b.unary(OpKind::Ceil, shifted(-0.5))
                   : a.nearest == NearestMode::RoundPreferCeil ? b.unary(OpKind::Floor, shifted(0.5))
                   : a.nearest == NearestMode::Floor           ? b.unary(OpKind::Floor, source)
                                                               : b.unary(OpKind::Ceil, source));
      continue;
    }
    const ValueId low = b.unary(OpKind::Floor, source), share = b.sub(source, low);
    const auto weighted = [&](double tap, ValueId weight) {
      return b.mul(gathered(b.add(low, number(tap))), b.cast(b.reshape(weight, along), op.graph().dtype(x)));
    };
    if (a.mode == ResizeMode::Linear) {
      x = b.add(weighted(0, b.sub(number(1), share)), weighted(1, share));
      continue;
    }
    // The cubic of Keys at distances 1+s, s, 1-s and 2-s.
    const auto near = [&](ValueId d) {
      return b.add(b.mul(b.mul(b.sub(times(d, a.cubic_a + 2), number(a.cubic_a + 3)), d), d), number(1));
    };
    const auto far = [&](ValueId d) {
      const ValueId inner = b.add(b.mul(b.sub(times(d, a.cubic_a), number(5 * a.cubic_a)), d), number(8 * a.cubic_a));
      return b.sub(b.mul(inner, d), number(4 * a.cubic_a));
    };
    const ValueId rest = b.sub(number(1), share);
    x = b.add(b.add(weighted(-1, far(b.add(share, number(1)))), weighted(0, near(share))),
              b.add(weighted(1, near(rest)), weighted(2, far(b.add(rest, number(1))))));
  }
  if (x.valid()) op.set(0, is_float(t) ? x : b.cast(a.mode == ResizeMode::Nearest ? x : b.unary(OpKind::Floor, x), t));
}

}  // namespace

void resize(Op& op) {
  ResizeAttrs a;
  const bool v10 = op.opset < 11;
  const auto rank = static_cast<size_t>(op.rank(0));
  if (!op.choose("mode", op.s("mode", "nearest"), &a.mode)) return;
  if (!op.choose("coordinate_transformation_mode", v10 ? "asymmetric" : op.s("coordinate_transformation_mode", "half_pixel"),
                 &a.coord))
    return;
  if (!op.choose("nearest_mode", v10 ? "floor" : op.s("nearest_mode", "round_prefer_floor"), &a.nearest)) return;
  a.cubic_a = op.f("cubic_coeff_a", -0.75);
  a.extrapolation = op.f("extrapolation_value", 0);
  a.exclude_outside = op.i("exclude_outside", 0) != 0;
  a.antialias = op.i("antialias", 0) != 0;
  a.sizes = op.sizes(0);
  std::vector<int64_t> axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  if (op.opset >= 18 && op.has_attr("axes")) {
    const auto normal = op.axes(op.ints("axes"), op.rank(0));
    if (!normal) return;
    axes = *normal;
  }
  const size_t scale_input = v10 ? 1 : 2;
  const bool has_scales = op.has(scale_input) && !(op.type(scale_input).dims.size() == 1 && op.sizes(scale_input)[0] == Dim(0));
  if (!v10 && op.has(3)) {
    const auto sizes = op.find_dims(3);
    if (!sizes && op.s("keep_aspect_ratio_policy", "stretch") == "stretch") return resize_by_data(op, a, axes, 3, false);
    if (!sizes) return (void)op.need_dims(3, "sizes");
    if (sizes->size() != axes.size())
      return (void)op.fail(Code::BadShape, "sizes needs " + std::to_string(axes.size()) + " entries");
    for (size_t i = 0; i < axes.size(); ++i) a.sizes[static_cast<size_t>(axes[i])] = (*sizes)[i];
    const std::string_view policy = op.s("keep_aspect_ratio_policy", "stretch");
    if (policy != "stretch" && policy != "not_larger" && policy != "not_smaller")
      return (void)op.fail(Code::BadAttribute, "keep_aspect_ratio_policy " + quote(policy) + " is unknown");
    if (policy != "stretch" && !fit_aspect_ratio(op, policy, axes, &a)) return;
  } else if (has_scales) {
    const auto scales = op.find_known(scale_input);
    if (!scales) return resize_by_data(op, a, axes, scale_input, true);
    if (scales->v.size() != axes.size())
      return (void)op.fail(Code::BadShape, "scales needs " + std::to_string(axes.size()) + " entries");
    if (!scaled_sizes(op, *scales, axes, &a)) return;
  } else {
    return (void)op.fail(Code::BadArity, "neither scales nor sizes are given");
  }
  if (a.coord == CoordMode::TfCropAndResize) {
    if (op.has(1) && op.rank(1) == 1 && !op.known_reals(1) && !op.given(1)) return resize_region(op, a, axes);
    const auto roi = op.need_reals(1, "roi");
    if (!roi) return;
    if (roi->size() != 2 * axes.size())
      return (void)op.fail(Code::BadShape, "roi needs " + std::to_string(2 * axes.size()) + " entries");
    a.roi.assign(2 * rank, 0);
    std::fill(a.roi.begin() + static_cast<std::ptrdiff_t>(rank), a.roi.end(), 1);
    for (size_t i = 0; i < axes.size(); ++i) {
      a.roi[static_cast<size_t>(axes[i])] = (*roi)[i];
      a.roi[rank + static_cast<size_t>(axes[i])] = (*roi)[axes.size() + i];
    }
  }
  for (Dim d : a.sizes)
    if (const auto v = op.dims().constant_value(d); v && *v < 1)
      return (void)op.fail(Code::BadShape, "the result would have size " + std::to_string(*v));
  op.set(0, op.b.create(OpKind::Resize, {op.in(0)}, std::move(a)));
}

void upsample(Op& op) {
  ResizeAttrs a;
  const std::string_view mode = op.s("mode", "nearest");
  if (mode != "nearest" && mode != "linear" && mode != "bilinear")
    return (void)op.fail(Code::BadAttribute, "mode " + quote(mode) + " is unknown");
  a.mode = mode == "nearest" ? ResizeMode::Nearest : ResizeMode::Linear;
  a.coord = CoordMode::Asymmetric;
  a.nearest = NearestMode::Floor;
  a.sizes = op.sizes(0);
  Known scales;
  if (op.opset >= 9) {
    auto given = op.find_known(1);
    if (!given) {
      std::vector<int64_t> all(a.sizes.size());
      std::iota(all.begin(), all.end(), 0);
      return resize_by_data(op, a, all, 1, true);
    }
    scales = std::move(*given);
  } else if (op.has_attr("scales")) {
    for (double v : op.floats("scales")) scales.v.push_back({Dim(0), 1, v, true});
  } else {
    for (double v : {1.0, 1.0, op.f("height_scale", 1), op.f("width_scale", 1)}) scales.v.push_back({Dim(0), 1, v, true});
  }
  if (scales.v.size() != a.sizes.size())
    return (void)op.fail(Code::BadShape, "scales needs " + std::to_string(a.sizes.size()) + " entries");
  std::vector<int64_t> axes(a.sizes.size());
  std::iota(axes.begin(), axes.end(), 0);
  if (scaled_sizes(op, scales, axes, &a)) op.set(0, op.b.create(OpKind::Resize, {op.in(0)}, std::move(a)));
}

}  // namespace rlxc::onnx_import
