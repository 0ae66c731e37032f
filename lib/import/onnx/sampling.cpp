// Operators that read images at computed positions. Positions and weights are elementwise arithmetic; each corner is read by one
// gather.
#include <array>
#include <limits>
#include <numeric>

#include "import/onnx/expressions.h"
#include "import/onnx/handlers.h"
#include "support/checked.h"

namespace rlxc::onnx_import {
namespace {

enum class Outside { Zeros, Border, Reflection };

// Helpers for one float type, and for flat images [N,C,P] read at indices [N,K]. With `first_pixels` [R,1], images are pixels
// [P,C], of which each of R regions reads those after its first one.
class Sampler {
 public:
  Sampler(Op& op, DType t, ValueId first_pixels = {}) : op_(op), b_(op.b), type_(t), first_(first_pixels) {}

  DType type() const { return type_; }
  ValueId real(double v) { return b_.scalar(type_, v); }
  ValueId extent(Dim d) {  // a dim as a number
    if (const auto v = op_.dims().constant_value(d)) return real(static_cast<double>(*v));
    return b_.cast(b_.create(OpKind::DimValue, {}, DimsAttrs{{d}, true}), type_);
  }
  ValueId range(Dim n) { return b_.create(OpKind::Range, {real(0), real(1)}, DimsAttrs{{n}, false}); }
  ValueId clamp(ValueId v, ValueId low, ValueId high) { return b_.create(OpKind::Min, {b_.create(OpKind::Max, {v, low}), high}); }
  ValueId inside(ValueId v, ValueId low, ValueId high) {
    return b_.create(OpKind::And, {b_.create(OpKind::Ge, {v, low}), b_.create(OpKind::Le, {v, high})});
  }

  // Reads flat images at integral float positions [N,K], as [N,C,K]; pixels as [R,K,C].
  ValueId read(ValueId images, ValueId position) {
    if (!images.valid() || !position.valid()) return {};
    if (first_.valid()) return b_.create(OpKind::Gather, {images, b_.add(b_.cast(position, DType::I64), first_)}, AxisAttrs{0});
    const Graph& g = op_.graph();
    const std::vector<Dim> have(g.dims(images).begin(), g.dims(images).end()),
        at(g.dims(position).begin(), g.dims(position).end());
    const ValueId index = b_.expand(b_.reshape(b_.cast(position, DType::I64), {at[0], Dim(1), at[1]}), {at[0], have[1], at[1]});
    return b_.create(OpKind::GatherElements, {images, index}, AxisAttrs{2});
  }
  ValueId per_channel(ValueId v) {  // [N,K] -> [N,1,K]; of pixels [R,K,1]
    if (!v.valid()) return {};
    const auto d = op_.graph().dims(v);
    return first_.valid() ? b_.reshape(v, {d[0], d[1], Dim(1)}) : b_.reshape(v, {d[0], Dim(1), d[1]});
  }

 private:
  Op& op_;
  Builder& b_;
  DType type_;
  ValueId first_;
};

// The taps along one axis: integral positions, weights, and whether they count.
struct Taps {
  std::vector<ValueId> position, weight, counts;
};

struct GridRule {
  int taps = 2;  // 1 nearest, 2 linear, 4 cubic
  Outside outside = Outside::Zeros;
  bool align_corners = false;
};

// Reflects a coordinate at both borders until it is inside.
ValueId reflect(Op& op, Sampler& s, ValueId v, ValueId low, ValueId high) {
  Builder& b = op.b;
  const ValueId span = b.create(OpKind::Max, {b.sub(high, low), s.real(1e-30)}), twice = b.add(span, span);
  const ValueId away = b.create(OpKind::Fmod, {b.unary(OpKind::Abs, b.sub(v, low)), twice});
  return b.add(low, b.create(OpKind::Min, {away, b.sub(twice, away)}));
}

Taps axis_taps(Op& op, Sampler& s, ValueId coordinate, Dim size, const GridRule& rule) {
  Builder& b = op.b;
  const ValueId n = s.extent(size), last = b.sub(n, s.real(1)), half = s.real(0.5);
  const ValueId low = rule.align_corners ? s.real(0) : s.real(-0.5), high = rule.align_corners ? last : b.sub(n, half);
  const ValueId shifted = b.add(coordinate, s.real(1));  // -1..1 -> positions
  ValueId x = rule.align_corners ? b.mul(b.mul(shifted, half), last) : b.sub(b.mul(b.mul(shifted, n), half), half);
  if (rule.taps == 1) x = b.unary(OpKind::Round, x);
  const bool is_moved = rule.outside == Outside::Reflection || (rule.outside == Outside::Border && rule.taps < 4);
  if (is_moved) {  // cubic: the taps are moved, as in onnxruntime and PyTorch
    const ValueId moved = rule.outside == Outside::Border ? s.clamp(x, s.real(0), last) : reflect(op, s, x, low, high);
    x = b.create(OpKind::Where, {s.inside(x, low, high), x, moved});
  }
  const ValueId base = rule.taps == 1 ? x : b.unary(OpKind::Floor, x), f = b.sub(x, base);
  Taps taps;
  for (int t = 0; t < rule.taps; ++t) {
    const int offset = rule.taps == 4 ? t - 1 : t;
    ValueId p = b.add(base, s.real(offset)), w, counts;
    if (rule.taps == 2) {
      w = t == 0 ? b.sub(s.real(1), f) : f;
    } else if (rule.taps == 4) {  // Keys (1981), a = -0.75
      const double a = -0.75;
      const ValueId d = b.unary(OpKind::Abs, b.sub(f, s.real(offset))), d2 = b.mul(d, d), d3 = b.mul(d2, d);
      const auto poly = [&](double c3, double c2, double c1, double c0) {
        return b.add(b.add(b.mul(d3, s.real(c3)), b.mul(d2, s.real(c2))), b.add(b.mul(d, s.real(c1)), s.real(c0)));
      };
      w = offset == 0 || offset == 1 ? poly(a + 2, -(a + 3), 0, 1) : poly(a, -5 * a, 8 * a, -4 * a);
    }
    if (rule.outside == Outside::Zeros) counts = s.inside(p, s.real(0), last);
    if (rule.outside == Outside::Reflection) p = b.unary(OpKind::Floor, b.add(reflect(op, s, p, low, high), s.real(1e-3)));
    p = s.clamp(p, s.real(0), last);
    taps.position.push_back(p);
    taps.weight.push_back(w);
    taps.counts.push_back(counts);
  }
  return taps;
}

// Sums weight * image over all combinations of taps. `images` [N,C,product(dims)], taps [N,K] per axis -> [N,C,K].
ValueId interpolate(Op& op, Sampler& s, ValueId images, std::span<const Dim> sizes, std::span<const Taps> axes) {
  Builder& b = op.b;
  std::vector<size_t> at(axes.size(), 0);
  ValueId sum;
  for (;;) {
    ValueId position, weight, counts;
    for (size_t k = 0; k < axes.size(); ++k) {
      const ValueId p = axes[k].position[at[k]], w = axes[k].weight[at[k]], c = axes[k].counts[at[k]];
      position = position.valid() ? b.add(b.mul(position, s.extent(sizes[k])), p) : p;
      if (w.valid()) weight = weight.valid() ? b.mul(weight, w) : w;
      if (c.valid()) counts = counts.valid() ? b.create(OpKind::And, {counts, c}) : c;
    }
    ValueId v = b.cast(s.read(images, position), s.type());
    if (weight.valid()) v = b.mul(v, s.per_channel(weight));
    if (counts.valid()) v = b.create(OpKind::Where, {s.per_channel(counts), v, s.real(0)});
    sum = sum.valid() ? b.add(sum, v) : v;
    size_t k = axes.size();
    while (k > 0 && ++at[k - 1] == axes[k - 1].position.size()) at[--k] = 0;
    if (k == 0 || !sum.valid()) return sum;
  }
}

DType position_type(DType t) { return t == DType::F64 ? DType::F64 : DType::F32; }

}  // namespace

void grid_sample(Op& op) {
  const int spatial = op.rank(0) - 2;
  if (spatial < 1 || spatial > 3 || op.rank(1) != op.rank(0) || !op.dims().need_equal(op.sizes(1).back(), Dim(spatial)))
    return (void)op.fail(Code::BadShape, "needs x [N,C,...] and a grid [N,...," + std::to_string(spatial) + "]: " + op.show(0) +
                                             ", " + op.show(1));
  const std::string_view mode = op.s("mode", op.opset < 20 ? "bilinear" : "linear"), padding = op.s("padding_mode", "zeros");
  GridRule rule;
  rule.align_corners = op.i("align_corners", 0) != 0;
  if (mode == "nearest") rule.taps = 1;
  else if (mode == "bicubic" || mode == "cubic") rule.taps = 4;
  else if (mode != "bilinear" && mode != "linear")
    return (void)op.fail(Code::BadAttribute, "mode must be linear, nearest or cubic");
  if (padding == "border") rule.outside = Outside::Border;
  else if (padding == "reflection") rule.outside = Outside::Reflection;
  else if (padding != "zeros") return (void)op.fail(Code::BadAttribute, "padding_mode must be zeros, border or reflection");
  Sampler s(op, position_type(op.dtype(1)));
  const std::vector<Dim> x = op.sizes(0), grid = op.sizes(1);
  const Dim points = op.dims().product({grid.begin() + 1, grid.end() - 1});
  const ValueId images = op.b.reshape(op.in(0), {x[0], x[1], op.dims().product({x.begin() + 2, x.end()})});
  const ValueId positions = op.b.cast(op.b.reshape(op.in(1), {grid[0], points, Dim(spatial)}), s.type());
  std::vector<Taps> axes;
  for (int k = 0; k < spatial; ++k) {
    const ValueId c = op.b.reshape(op.b.narrow(positions, 2, Dim(spatial - 1 - k), Dim(1)), {grid[0], points});
    axes.push_back(axis_taps(op, s, c, x[static_cast<size_t>(k) + 2], rule));
  }
  const ValueId y = op.b.cast(interpolate(op, s, images, std::span(x).subspan(2), axes), op.dtype(0));
  std::vector<Dim> out{x[0], x[1]};
  out.insert(out.end(), grid.begin() + 1, grid.end() - 1);
  op.set(0, op.b.reshape(y, std::move(out)));
}

namespace {

// Linear taps of positions that may be outside by at most one; others do not count.
Taps edge_taps(Op& op, Sampler& s, ValueId x, Dim size) {
  Builder& b = op.b;
  const ValueId n = s.extent(size), last = b.sub(n, s.real(1)), inside = s.inside(x, s.real(-1), n);
  const ValueId held = s.clamp(x, s.real(0), last), base = b.unary(OpKind::Floor, held), f = b.sub(held, base);
  return {{base, b.create(OpKind::Min, {b.add(base, s.real(1)), last})}, {b.sub(s.real(1), f), f}, {inside, inside}};
}

}  // namespace

void roi_align(Op& op) {
  const int64_t height = op.i("output_height", 1), width = op.i("output_width", 1), ratio = op.i("sampling_ratio", 0);
  const std::string_view mode = op.s("mode", "avg"),
                         coordinates = op.s("coordinate_transformation_mode", op.opset < 16 ? "output_half_pixel" : "half_pixel");
  if (op.rank(0) != 4 || op.rank(1) != 2 || op.rank(2) != 1)
    return (void)op.fail(Code::BadShape, "needs x [N,C,H,W], rois [R,4], batch indices [R]");
  if (mode != "avg" && mode != "max") return (void)op.fail(Code::BadAttribute, "mode must be avg or max");
  if (height < 1 || width < 1 || height > 4096 || width > 4096 || ratio < 0 || ratio > 256)
    return (void)op.fail(Code::BadAttribute, "output sizes or sampling_ratio are out of range");
  const bool half = coordinates == "half_pixel";
  Builder& b = op.b;
  const std::vector<Dim> x = op.sizes(0);
  const Dim rois = op.sizes(1)[0], plane = op.dims().mul(x[2], x[3]);
  // The channels of a pixel are adjacent, so that a region reads rows of its image and copies none.
  const ValueId pixels = b.reshape(b.transpose(op.in(0), {0, 2, 3, 1}), {op.dims().mul(x[0], plane), x[1]});
  const ValueId image = b.cast(b.reshape(op.in(2), {rois, Dim(1)}), DType::I64);
  Sampler s(op, position_type(op.dtype(0)), b.mul(image, b.cast(Sampler(op, DType::F64).extent(plane), DType::I64)));
  const ValueId scale = s.real(op.f("spatial_scale", 1)), regions = b.cast(op.in(1), s.type());
  // Sample positions in one direction: [rois, bins, samples]. With ratio 0 the number of samples is the bin size, padded to the
  // largest; `taken` [rois, 1, samples] marks the valid ones.
  struct Samples {
    ValueId at, taken, count;
    Dim n;
  };
  const auto positions = [&](int64_t from, int64_t bins) -> Samples {
    const auto column = [&](int64_t i) {
      return b.sub(b.mul(b.reshape(b.narrow(regions, 1, Dim(i), Dim(1)), {rois, Dim(1), Dim(1)}), scale), s.real(half ? 0.5 : 0));
    };
    const ValueId start = column(from);
    ValueId length = b.sub(column(from + 2), start);
    if (!half) length = b.create(OpKind::Max, {length, s.real(1)});
    const ValueId bin = b.div(length, s.real(static_cast<double>(bins)));
    const ValueId which = b.reshape(s.range(Dim(bins)), {Dim(bins), Dim(1)});
    if (ratio > 0) {
      const ValueId within = b.mul(b.add(s.range(Dim(ratio)), s.real(0.5)), s.real(1.0 / static_cast<double>(ratio)));
      return {b.add(start, b.mul(b.add(which, within), bin)), {}, {}, Dim(ratio)};
    }
    const ValueId count = b.create(OpKind::Max, {b.unary(OpKind::Ceil, bin), s.real(0)}),
                  some = b.create(OpKind::Max, {count, s.real(1)});
    const ValueId most = b.cast(b.reduce(ReduceOp::Max, some, {0, 1, 2}, false), DType::I64);
    const ValueId all = b.create(OpKind::Iota, {most});
    if (!all.valid()) return {};
    const ValueId number = b.cast(all, s.type()), within = b.div(b.add(number, s.real(0.5)), some);
    return {b.add(start, b.mul(b.add(which, within), bin)), b.create(OpKind::Lt, {number, count}), count,
            op.graph().dims(all)[0]};
  };
  const Samples down = positions(1, height), across = positions(0, width);
  if (!down.at.valid() || !across.at.valid()) return;
  const std::vector<Dim> grid{rois, Dim(height), down.n, Dim(width), across.n};
  const Dim points = op.dims().product(std::span(grid).subspan(1));
  const ValueId ys = b.reshape(b.expand(b.reshape(down.at, {rois, Dim(height), down.n, Dim(1), Dim(1)}), grid), {rois, points});
  const ValueId xs =
      b.reshape(b.expand(b.reshape(across.at, {rois, Dim(1), Dim(1), Dim(width), across.n}), grid), {rois, points});
  const std::array axes{edge_taps(op, s, ys, x[2]), edge_taps(op, s, xs, x[3])};
  ValueId v;
  if (mode == "avg") {
    v = interpolate(op, s, pixels, std::span(x).subspan(2), axes);
  } else {  // the largest weighted corner
    for (size_t i = 0; i < 4; ++i) {
      std::array<Taps, 2> corner;
      for (size_t k = 0; k < 2; ++k) {
        const size_t t = k == 0 ? i / 2 : i % 2;
        corner[k] = {{axes[k].position[t]}, {axes[k].weight[t]}, {axes[k].counts[t]}};
      }
      const ValueId one = interpolate(op, s, pixels, std::span(x).subspan(2), corner);
      v = v.valid() ? b.create(OpKind::Max, {v, one}) : one;
    }
  }
  v = b.reshape(v, {rois, Dim(height), down.n, Dim(width), across.n, x[1]});
  const bool mean = mode == "avg";
  const auto give = [&](ValueId of_bins) { op.set(0, b.cast(b.transpose(of_bins, {0, 3, 1, 2}), op.dtype(0))); };
  if (ratio > 0) return give(b.reduce(mean ? ReduceOp::Mean : ReduceOp::Max, v, {2, 4}, false));
  const ValueId taken = b.create(OpKind::And, {b.reshape(down.taken, {rois, Dim(1), down.n, Dim(1), Dim(1), Dim(1)}),
                                               b.reshape(across.taken, {rois, Dim(1), Dim(1), Dim(1), across.n, Dim(1)})});
  const ValueId outside = s.real(mean ? 0 : -std::numeric_limits<double>::infinity());
  const ValueId y = b.reduce(mean ? ReduceOp::Sum : ReduceOp::Max, b.create(OpKind::Where, {taken, v, outside}), {2, 4}, false);
  const ValueId count = b.reshape(b.mul(down.count, across.count), {rois, Dim(1), Dim(1), Dim(1)});
  const ValueId any = mean ? b.div(y, b.create(OpKind::Max, {count, s.real(1)}))
                           : b.create(OpKind::Where, {b.create(OpKind::Eq, {count, s.real(0)}), s.real(0), y});
  give(any);
}

// Applies theta [N,k,k+1] to the pixel positions, from -1 to 1.
void affine_grid(Op& op) {
  const auto size = op.need_dims(1, "size");
  if (!size) return;
  const int64_t k = static_cast<int64_t>(size->size()) - 2;
  if (k < 2 || k > 3 || op.rank(0) != 3) return (void)op.fail(Code::BadShape, "needs theta [N,k,k+1] and k+2 sizes");
  const bool align = op.i("align_corners", 0) != 0;
  Sampler s(op, position_type(op.dtype(0)));
  Builder& b = op.b;
  const std::vector<Dim> spatial(size->begin() + 2, size->end());
  const Dim points = op.dims().product(spatial);
  std::vector<ValueId> columns;
  for (int64_t i = k; i-- > 0;) {
    const Dim n = spatial[static_cast<size_t>(i)];
    const ValueId r = s.range(n), count = s.extent(n);
    const ValueId p = align ? b.div(b.mul(r, s.real(2)), b.create(OpKind::Max, {b.sub(count, s.real(1)), s.real(1)}))
                            : b.div(b.add(b.mul(r, s.real(2)), s.real(1)), count);
    std::vector<Dim> along(static_cast<size_t>(k), Dim(1));
    along[static_cast<size_t>(i)] = n;
    columns.push_back(b.reshape(b.expand(b.reshape(b.sub(p, s.real(1)), along), spatial), {points, Dim(1)}));
  }
  columns.push_back(b.expand(s.real(1), {points, Dim(1)}));
  const ValueId grid = b.matmul(b.concat(columns, 1), b.cast(op.in(0), s.type()), false, true);
  std::vector<Dim> out{op.sizes(0)[0]};
  out.insert(out.end(), spatial.begin(), spatial.end());
  out.emplace_back(k);
  op.set(0, b.cast(b.reshape(grid, std::move(out)), op.dtype(0)));
}

// x, w, offset, bias, mask. Gathers the im2col columns at displaced positions and multiplies by the weights.
void deform_conv(Op& op) {
  if (op.rank(0) != 4 || op.rank(1) != 4 || op.rank(2) != 4) return (void)op.unsupported("needs x [N,C,H,W]: " + op.show(0));
  const auto list = [&](std::string_view name, size_t n, int64_t fallback) {
    auto v = op.ints(name);
    if (!op.has_attr(name)) v.assign(n, fallback);
    if (v.size() != n) op.fail(Code::BadAttribute, std::string(name) + " needs " + std::to_string(n) + " entries");
    return v;
  };
  const auto strides = list("strides", 2, 1), dilations = list("dilations", 2, 1), pads = list("pads", 4, 0);
  const int64_t groups = op.i("group", 1), offset_groups = op.i("offset_group", 1);
  const auto kh = op.dims().constant_value(op.sizes(1)[2]), kw = op.dims().constant_value(op.sizes(1)[3]);
  if (op.failed()) return;
  if (!kh || !kw || groups < 1 || offset_groups < 1)
    return (void)op.fail(Code::BadAttribute, "kernel sizes must be known, groups positive");
  if (op.has_attr("kernel_shape") && op.ints("kernel_shape") != std::vector{*kh, *kw})
    return (void)op.fail(Code::BadAttribute, "kernel_shape does not fit the weights: " + op.show(1));
  Sampler s(op, position_type(op.dtype(0)));
  Builder& b = op.b;
  DimTable& dims = op.dims();
  const std::vector<Dim> x = op.sizes(0), w = op.sizes(1), offset = op.sizes(2);
  const Dim oh = offset[2], ow = offset[3], taps(*kh * *kw), og(offset_groups), points = dims.product(std::array{taps, oh, ow});
  const Dim entries = dims.mul(x[0], og), channels = dims.floor_div(x[1], og);
  // [N, groups, taps, 2, oh, ow]; y first.
  const ValueId moved = b.cast(b.reshape(op.in(2), {entries, taps, Dim(2), oh, ow}), s.type());
  const auto positions = [&](int64_t which, Dim n, int64_t kernel, bool rows) {
    const auto k = static_cast<size_t>(which);
    const ValueId start = b.sub(b.mul(s.range(n), s.real(static_cast<double>(strides[k]))), s.real(static_cast<double>(pads[k])));
    const ValueId tap = b.mul(s.range(Dim(kernel)), s.real(static_cast<double>(dilations[k])));
    const ValueId base = b.add(b.reshape(tap, rows ? std::vector<Dim>{Dim(kernel), Dim(1), Dim(1), Dim(1)}
                                                   : std::vector<Dim>{Dim(1), Dim(kernel), Dim(1), Dim(1)}),
                               b.reshape(start, rows ? std::vector<Dim>{n, Dim(1)} : std::vector<Dim>{Dim(1), n}));
    const ValueId all = b.reshape(b.expand(base, {Dim(*kh), Dim(*kw), oh, ow}), {taps, oh, ow});
    const ValueId shift = b.reshape(b.narrow(moved, 2, Dim(which), Dim(1)), {entries, taps, oh, ow});
    return b.reshape(b.add(shift, all), {entries, points});
  };
  const auto linear = [&](ValueId at, Dim n) {
    const ValueId base = b.unary(OpKind::Floor, at), f = b.sub(at, base), last = b.sub(s.extent(n), s.real(1));
    Taps t;
    for (int i = 0; i < 2; ++i) {
      const ValueId p = b.add(base, s.real(i));
      t.counts.push_back(s.inside(p, s.real(0), last));
      t.position.push_back(s.clamp(p, s.real(0), last));
      t.weight.push_back(i == 0 ? b.sub(s.real(1), f) : f);
    }
    return t;
  };
  const std::array axes{linear(positions(0, oh, *kh, true), x[2]), linear(positions(1, ow, *kw, false), x[3])};
  const ValueId images = b.reshape(op.in(0), {entries, channels, dims.mul(x[2], x[3])});
  ValueId columns = interpolate(op, s, images, std::span(x).subspan(2), axes);
  if (op.has(4)) columns = b.mul(columns, b.reshape(b.cast(op.in(4), s.type()), {entries, Dim(1), points}));
  const Dim g(groups), inner = dims.mul(dims.floor_div(x[1], g), taps);
  const ValueId matrix = b.reshape(op.in(1), {g, dims.floor_div(w[0], g), inner});
  ValueId y = b.matmul(matrix, b.reshape(b.cast(columns, op.dtype(0)), {x[0], g, inner, dims.mul(oh, ow)}));
  y = b.reshape(y, {x[0], w[0], oh, ow});
  if (op.has(3)) y = b.add(y, b.reshape(op.in(3), {w[0], Dim(1), Dim(1)}));
  op.set(0, y);
}

// The inverse of max pooling: scatters each element to its original index in the whole result.
void max_unpool(Op& op) {
  const std::vector<Dim> x = op.sizes(0);
  const size_t n = x.size() < 2 ? 0 : x.size() - 2;
  const auto kernel = op.ints("kernel_shape");
  auto strides = op.ints("strides"), pads = op.ints("pads");
  if (!op.has_attr("strides")) strides.assign(n, 1);
  if (!op.has_attr("pads")) pads.assign(2 * n, 0);
  if (n == 0 || kernel.size() != n || strides.size() != n || pads.size() != 2 * n)
    return (void)op.fail(Code::BadAttribute, "kernel_shape, strides or pads do not fit " + op.show(0));
  std::vector<Dim> out{x[0], x[1]};
  for (size_t i = 0; i < n; ++i) {
    const auto size = op.dims().constant_value(x[i + 2]);
    if (!size) return (void)op.unsupported("needs known sizes");
    const auto steps = checked_mul(*size - 1, strides[i]);
    const int64_t total = steps ? *steps - pads[i] - pads[n + i] + kernel[i] : -1;
    if (total < 0 || total > Dim::kMax)
      return (void)op.fail(Code::BadAttribute, "the result would have size " + std::to_string(total));
    out.emplace_back(total);
  }
  // With an output shape, the indices of a pool are places in the image that was pooled.
  const ValueId index = op.in(1);
  if (const NodeId from = op.has(2) ? op.graph().def(index) : NodeId();
      from.valid() && op.graph().op(from) == OpKind::MaxPoolIndices)
    out = dims_of(op, op.graph().operand(from, 0));
  const auto flat = [&](size_t i) { return op.b.reshape(op.in(i), {op.dims().product(x)}); };
  const ValueId zeros = op.b.expand(op.b.scalar(op.dtype(0), 0), {op.dims().product(out)});
  ValueId y = op.b.reshape(op.b.create(OpKind::ScatterElements, {zeros, flat(1), flat(0)}, ScatterAttrs{0}), out);
  if (op.has(2)) {
    const auto want = op.need_dims(2, "output shape");
    if (!want) return;
    if (want->size() != out.size())
      return (void)op.fail(Code::BadShape, "the output shape needs " + std::to_string(out.size()) + " entries");
    PadAttrs p;
    for (size_t i = 0; i < out.size(); ++i) {
      p.before.emplace_back(0);
      p.after.push_back(op.dims().sub((*want)[i], out[i]));
    }
    y = op.b.create(OpKind::Pad, {y}, std::move(p));
  }
  op.set(0, y);
}

// Adds columns [N, C*block, L] into images: a scatter onto padded zeros, then a crop.
void col2im(Op& op) {
  const auto image = op.need_ints(1, "image shape"), block = op.need_ints(2, "block shape");
  if (!image || !block) return;
  const size_t n = image->size();
  const auto list = [&](std::string_view name, size_t count, int64_t fallback) {
    return op.has_attr(name) ? op.ints(name) : std::vector<int64_t>(count, fallback);
  };
  const auto dilations = list("dilations", n, 1), pads = list("pads", 2 * n, 0), strides = list("strides", n, 1);
  if (op.rank(0) != 3 || n == 0 || block->size() != n || dilations.size() != n || pads.size() != 2 * n || strides.size() != n)
    return (void)op.fail(Code::BadAttribute, "image, block, dilations, pads or strides do not fit each other");
  std::vector<int64_t> padded(n), steps(n);
  int64_t taps = 1, columns = 1, volume = 1;
  for (size_t i = 0; i < n; ++i) {
    const auto limited = [](int64_t v, int64_t low) { return v >= low && v <= 1 << 20; };
    if (!limited((*image)[i], 1) || !limited((*block)[i], 1) || !limited(dilations[i], 1) || !limited(strides[i], 1) ||
        !limited(pads[i], 0) || !limited(pads[n + i], 0))
      return (void)op.fail(Code::BadAttribute, "a size, stride or pad is out of range");
    padded[i] = (*image)[i] + pads[i] + pads[n + i];
    steps[i] = (padded[i] - (dilations[i] * ((*block)[i] - 1) + 1)) / strides[i] + 1;
    if (steps[i] < 1) return (void)op.fail(Code::BadShape, "the block does not fit into the image");
    taps *= (*block)[i];
    columns *= steps[i];
    volume *= padded[i];
    if (taps > 1 << 24 || columns > 1 << 24 || volume > 1 << 28 || taps * columns > 1 << 26)
      return (void)op.fail(Code::TooLarge, "the image is too large");
  }
  std::vector<int64_t> index;
  index.reserve(static_cast<size_t>(taps * columns));
  for (int64_t t = 0; t < taps; ++t)
    for (int64_t c = 0; c < columns; ++c) {
      int64_t tap = t, column = c, stride = 1, at = 0;
      for (size_t i = n; i-- > 0;) {
        at += ((tap % (*block)[i]) * dilations[i] + (column % steps[i]) * strides[i]) * stride;
        tap /= (*block)[i];
        column /= steps[i];
        stride *= padded[i];
      }
      index.push_back(at);
    }
  Builder& b = op.b;
  const Dim channels = op.dims().floor_div(op.sizes(0)[1], Dim(taps)), rows = op.dims().mul(op.sizes(0)[0], channels),
            all(taps * columns);
  const ValueId where = b.expand(b.reshape(b.ints(std::move(index)), {Dim(1), all}), {rows, all});
  const ValueId zeros = b.expand(b.scalar(op.dtype(0), 0), {rows, Dim(volume)});
  ValueId y =
      b.create(OpKind::ScatterElements, {zeros, where, b.reshape(op.in(0), {rows, all})}, ScatterAttrs{1, Reduction::Add});
  std::vector<Dim> out{op.sizes(0)[0], channels};
  for (int64_t d : padded) out.emplace_back(d);
  y = b.reshape(y, std::move(out));
  for (size_t i = 0; i < n; ++i)
    if (padded[i] != (*image)[i]) y = b.narrow(y, static_cast<int64_t>(i) + 2, Dim(pads[i]), Dim((*image)[i]));
  op.set(0, y);
}

}  // namespace rlxc::onnx_import
