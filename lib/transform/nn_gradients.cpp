#include "transform/nn_gradients.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>

namespace rlxc::transform {

Normalised normalised(Term x, const std::vector<int64_t>& rows, double eps) {
  const Term centred = x - mean(x, rows), r = rsqrt(mean(square(centred), rows) + eps);
  return {centred * r, r};
}
Term norm_gradient(const Normalised& n, Term g, const std::vector<int64_t>& rows) {
  return (g - mean(g, rows) - n.x * mean(g * n.x, rows)) * n.r;
}

Term rms_inverse(Term x, const std::vector<int64_t>& rows, double eps) { return rsqrt(mean(square(x), rows) + eps); }
Term rms_gradient(Term x, Term r, Term g, const std::vector<int64_t>& rows) {
  const Term unit = x * r;
  return (g - unit * mean(g * unit, rows)) * r;
}

std::vector<Dim> grouped(Term x, int64_t groups) {
  const std::vector<Dim> d = x.dims();
  DimTable& t = x.b->dims();
  return {d[0], Dim(groups), t.floor_div(t.product(std::span(d).subspan(1)), Dim(groups))};
}

std::vector<int64_t> all_but(int64_t axis, int rank) {
  std::vector<int64_t> axes;
  for (int64_t i = 0; i < rank; ++i)
    if (i != axis) axes.push_back(i);
  return axes;
}

std::vector<int64_t> axes_between(int64_t from, int64_t to) {
  std::vector<int64_t> axes;
  for (int64_t i = from; i < to; ++i) axes.push_back(i);
  return axes;
}

Term along(Term v, int64_t axis, Term x) {
  std::vector<Dim> d(static_cast<size_t>(x.rank()), Dim(1));
  if (v.valid()) d[static_cast<size_t>(axis)] = v.dims()[0];
  return reshape(v, d);
}

namespace {

// One spatial axis of the convolution that gives the gradient of a convolution's input. The gradient has interleaved phases.
// Element step * q + r is element q of phase r: the sum over u of dy[q + ahead - spread * u] * w[step * u + r - front].
struct BackAxis {
  int64_t step = 1, phases = 1, front = 0, taps = 1, spread = 1, before = 0, after = 0;
  Dim quotients;
};

// Nullopt where the sizes are not known, strides meet dilations, or dy would have to be cut.
std::optional<BackAxis> back_axis(DimTable& t, const ConvAttrs& a, size_t i, Dim kernel, Dim in, Dim out) {
  const auto size = t.constant_value(kernel);
  if (!size || *size < 1 || a.strides[i] < 1 || (a.strides[i] > 1 && a.dilations[i] > 1 && *size > 1)) return std::nullopt;
  BackAxis x;
  x.step = a.strides[i];
  x.spread = x.step == 1 ? a.dilations[i] : 1;
  const int64_t ahead = (a.pads_begin[i] + x.step - 1) / x.step;
  x.front = ahead * x.step - a.pads_begin[i];
  x.phases = std::min(x.step, x.front + *size);
  x.taps = (x.front + *size + x.step - 1) / x.step;
  x.quotients = t.ceil_div(in, Dim(x.step));
  x.before = (x.taps - 1) * x.spread - ahead;
  const auto longer = t.constant_value(t.sub(x.quotients, out));
  if (!longer) return std::nullopt;
  x.after = *longer - x.before + (x.taps - 1) * x.spread;
  return x.before >= 0 && x.after >= 0 ? std::optional(x) : std::nullopt;
}

// As a convolution of dy with the flipped weights. Where the strides are not 1, each phase of the positions has weights of its
// own; the phases are channels of the convolution and lie side by side afterwards.
Term input_gradient_by_conv(Term dy, Term w, const ConvAttrs& a, const std::vector<Dim>& dx) {
  DimTable& t = dy.b->dims();
  const size_t spatial = a.strides.size();
  const std::vector<Dim> out = dy.dims(), kernel = w.dims();
  const auto channels = t.constant_value(kernel[1]), filters = t.constant_value(kernel[0]);
  if (!channels || !filters || a.groups < 1) return dy.with({});
  std::vector<BackAxis> axes;
  for (size_t i = 0; i < spatial; ++i) {
    const auto axis = back_axis(t, a, i, kernel[i + 2], dx[i + 2], out[i + 2]);
    if (!axis) return dy.with({});
    axes.push_back(*axis);
  }

  // [groups, filters, channels, taps, phases, ..] -> [groups * channels * phases.., filters, taps..], taps from the last to the
  // first.
  PadAttrs pad{std::vector<Dim>(spatial + 2, Dim(0)), std::vector<Dim>(spatial + 2, Dim(0))};
  std::vector<Dim> split{Dim(a.groups), Dim(*filters / a.groups), Dim(*channels)}, joined;
  std::vector<int64_t> order{0, 2}, flipped;
  int64_t phases = 1;
  bool pads = false;
  for (size_t i = 0; i < spatial; ++i) {
    const BackAxis& x = axes[i];
    const int64_t size = x.taps * x.step, own = kernel[i + 2].size();
    pad.before[i + 2] = Dim(x.front);
    pad.after[i + 2] = Dim(size - own - x.front);
    pads = pads || size != own;
    split.insert(split.end(), {Dim(x.taps), Dim(x.step)});
    phases *= x.phases;
    order.push_back(static_cast<int64_t>(2 * i + 4));
  }
  order.push_back(1);
  joined = {Dim(a.groups * *channels * phases), Dim(*filters / a.groups)};
  for (size_t i = 0; i < spatial; ++i) {
    order.push_back(static_cast<int64_t>(2 * i + 3));
    joined.push_back(Dim(axes[i].taps));
    if (axes[i].taps > 1) flipped.push_back(static_cast<int64_t>(i) + 2);
  }
  if (pads) w = make(OpKind::Pad, {w, w.number(0)}, pad);
  w = reshape(w, split);
  for (size_t i = 0; i < spatial; ++i)
    if (axes[i].phases < axes[i].step) w = narrow(w, static_cast<int64_t>(2 * i + 4), Dim(0), Dim(axes[i].phases));
  w = reshape(transpose(w, order), joined);
  if (!flipped.empty()) w = make(OpKind::Reverse, {w}, AxesAttrs{flipped});

  ConvAttrs back;
  back.groups = a.groups;
  back.strides.assign(spatial, 1);
  back.output_padding.assign(spatial, 0);
  for (const BackAxis& x : axes) {
    back.pads_begin.push_back(x.before);
    back.pads_end.push_back(x.after);
    back.dilations.push_back(x.spread);
  }
  Term g = make(OpKind::Conv, {dy, w}, back);
  if (!g.valid() || std::ranges::all_of(axes, [](const BackAxis& x) { return x.step == 1; })) return g;

  // [batch, channels, phases.., quotients..] -> [batch, channels, quotients * phases..]
  std::vector<Dim> apart{out[0], dx[1]}, together = apart;
  std::vector<int64_t> side_by_side{0, 1};
  PadAttrs fill{std::vector<Dim>(2 * spatial + 2, Dim(0)), std::vector<Dim>(2 * spatial + 2, Dim(0))};
  bool fills = false;
  for (size_t i = 0; i < spatial; ++i) {
    apart.push_back(Dim(axes[i].phases));
    side_by_side.insert(side_by_side.end(), {static_cast<int64_t>(2 + spatial + i), static_cast<int64_t>(2 + i)});
    fill.after[2 * i + 3] = Dim(axes[i].step - axes[i].phases);
    fills = fills || axes[i].phases < axes[i].step;
    together.push_back(t.mul(axes[i].quotients, Dim(axes[i].step)));
  }
  for (const BackAxis& x : axes) apart.push_back(x.quotients);
  g = transpose(reshape(g, apart), side_by_side);
  if (fills) g = make(OpKind::Pad, {g, g.number(0)}, fill);
  g = reshape(g, together);
  for (size_t i = 2; i < dx.size() && g.valid(); ++i)
    if (!t.equal(g.dims()[i], dx[i])) g = narrow(g, static_cast<int64_t>(i), Dim(0), dx[i]);
  return g;
}

}  // namespace

Term conv_input_gradient(Term dy, Term w, ConvAttrs a, const std::vector<Dim>& dx) {
  const std::vector<Dim> out = dy.dims(), kernel = w.dims();
  DimTable& t = dy.b->dims();
  if (out.size() != dx.size() || kernel.size() != dx.size() || a.strides.size() + 2 != dx.size()) return dy.with({});
  if (const Term g = input_gradient_by_conv(dy, w, a, dx); g.valid()) return g;
  a.output_padding.assign(a.strides.size(), 0);
  for (size_t i = 0; i < a.strides.size(); ++i) {
    const Dim reach =
        t.add(t.mul(t.sub(out[i + 2], Dim(1)), Dim(a.strides[i])), t.mul(t.sub(kernel[i + 2], Dim(1)), Dim(a.dilations[i])));
    const Dim made = t.add(t.sub(reach, t.constant(a.pads_begin[i] + a.pads_end[i])), Dim(1));
    // Where it is not known how much the last window left over, as much as it may be is made.
    const int64_t left = t.constant_value(t.sub(dx[i + 2], made)).value_or(a.strides[i] - 1);
    a.output_padding[i] = std::max<int64_t>(left, 0);
  }
  Term x = make(OpKind::ConvTranspose, {dy, w}, std::move(a));
  for (size_t i = 2; i < dx.size() && x.valid(); ++i)
    if (!t.equal(x.dims()[i], dx[i])) x = narrow(x, static_cast<int64_t>(i), Dim(0), dx[i]);
  return x;
}

namespace {

constexpr int64_t kMostTaps = 32;

// Returns whether the convolution is depthwise and has few taps. The gradient of each tap is then a sum of products over pixels.
bool is_depthwise(const ConvAttrs& a, const std::vector<Dim>& x, const std::vector<Dim>& dw) {
  int64_t taps = 1;
  for (size_t i = 2; i < dw.size(); ++i) taps *= dw[i].is_static() && dw[i].size() <= kMostTaps ? dw[i].size() : kMostTaps + 1;
  const auto is_negative = [](int64_t pad) { return pad < 0; };
  return a.groups > 1 && x[1] == Dim(a.groups) && dw[0] == x[1] && taps <= kMostTaps &&
         std::ranges::none_of(a.pads_begin, is_negative) && std::ranges::none_of(a.pads_end, is_negative);
}

Term depthwise_weight_gradient(Term x, Term dy, const ConvAttrs& a, const std::vector<Dim>& dw) {
  const size_t spatial = dw.size() - 2;
  PadAttrs pad{std::vector<Dim>(dw.size(), Dim(0)), std::vector<Dim>(dw.size(), Dim(0))};
  std::vector<int64_t> pixels{0}, tap(spatial);
  for (size_t i = 0; i < spatial; ++i) {
    pad.before[i + 2] = Dim(a.pads_begin[i]);
    pad.after[i + 2] = Dim(a.pads_end[i]);
    pixels.push_back(static_cast<int64_t>(i) + 2);
  }
  const auto is_zero = [](Dim n) { return n == Dim(0); };
  if (!std::ranges::all_of(pad.before, is_zero) || !std::ranges::all_of(pad.after, is_zero))
    x = make(OpKind::Pad, {x, x.number(0)}, pad);
  std::vector<Term> sums;
  for (size_t at = 0; at < spatial || sums.empty();) {
    Term seen = x;
    for (size_t i = 0; i < spatial; ++i)
      seen = make(OpKind::Slice, {seen},
                  SliceAttrs{static_cast<int64_t>(i) + 2, Dim(tap[i] * a.dilations[i]), dy.dims()[i + 2], a.strides[i]});
    sums.push_back(reshape(sum(seen * dy, pixels, false), {dw[0], Dim(1)}));
    for (at = 0; at < spatial && ++tap[spatial - 1 - at] == dw[spatial + 1 - at].size(); ++at) tap[spatial - 1 - at] = 0;
  }
  return reshape(concat(sums, 1), dw);
}

}  // namespace

// The batch takes the place of the channels, dy that of the kernel.
Term conv_weight_gradient(Term x, Term dy, ConvAttrs a, const std::vector<Dim>& dw) {
  const std::vector<Dim> d = x.dims();
  DimTable& t = x.b->dims();
  if (d.size() != dw.size() || static_cast<size_t>(dy.rank()) != dw.size() || d.size() < 3 || a.groups < 1) return x.with({});
  const Dim groups(a.groups), each = t.floor_div(d[1], groups);
  std::vector<Dim> split{d[0], groups, each}, joined{each, t.mul(groups, d[0])};
  std::vector<int64_t> order{2, 1, 0}, swap{1, 0};
  for (size_t i = 2; i < d.size(); ++i) {
    split.push_back(d[i]);
    joined.push_back(d[i]);
    order.push_back(static_cast<int64_t>(i) + 1);
    swap.push_back(static_cast<int64_t>(i));
  }
  const auto all = [](const std::vector<int64_t>& v, int64_t n) {
    return std::ranges::all_of(v, [n](int64_t e) { return e == n; });
  };
  const bool is_point = std::all_of(dw.begin() + 2, dw.end(), [](Dim n) { return n == Dim(1); });
  if (is_point && a.groups == 1 && all(a.strides, 1) && all(a.pads_begin, 0) && all(a.pads_end, 0)) {  // a product over pixels
    const auto rows = [&](Term v) {
      std::vector<Dim> pixels = v.dims();
      const Dim channels = pixels[1];
      pixels.erase(pixels.begin() + 1);
      return reshape(transpose(v, swap), {channels, t.product(pixels)});
    };
    return reshape(matmul(rows(dy), rows(x), false, true), dw);
  }
  if (is_depthwise(a, d, dw)) return depthwise_weight_gradient(x, dy, a, dw);
  std::swap(a.strides, a.dilations);
  Term w = make(OpKind::Conv, {reshape(transpose(reshape(x, split), order), joined), transpose(dy, swap)}, std::move(a));
  for (size_t i = 2; i < dw.size() && w.valid(); ++i)
    if (!t.equal(w.dims()[i], dw[i])) w = narrow(w, static_cast<int64_t>(i), Dim(0), dw[i]);
  return transpose(w, swap);
}

Term max_pool_gradient(Term x, Term dy, PoolAttrs a) {
  if (!x.valid() || !dy.valid()) return x.with({});
  const NodeId made = x.b->create_node(OpKind::MaxPoolIndices, std::array{x.v}, std::move(a));
  return made.valid() ? added_at(x.dims(), x.with(x.b->graph().result(made, 1)), dy) : x.with({});
}

Term sum_pool_gradient(Term dy, const PoolAttrs& p, const std::vector<Dim>& dx) {
  if (!dy.valid()) return dy;
  DimTable& t = dy.b->dims();
  const auto alone = [&](std::vector<Dim> d) {
    std::vector<Dim> out{t.mul(d[0], d[1]), Dim(1)};
    out.insert(out.end(), d.begin() + 2, d.end());
    return out;
  };
  ConvAttrs c;
  c.strides = p.strides;
  c.pads_begin = p.pads_begin;
  c.pads_end = p.pads_end;
  c.dilations = p.dilations;
  std::vector<Dim> kernel{Dim(1), Dim(1)};
  kernel.insert(kernel.end(), p.kernel.begin(), p.kernel.end());
  return reshape(conv_input_gradient(reshape(dy, alone(dy.dims())), expand(dy.number(1), kernel), c, alone(dx)), dx);
}

namespace {

struct PowerPool {
  PoolAttrs sums;
  Term of_x, of_y;  // the slope is of_x summed over the window, times of_y
};
PowerPool power_pool(Term x, Term y, const PoolAttrs& p) {
  PowerPool out{p, p.p == 2 ? x : sign(x) * pow(abs(x), p.p - 1), select(equal(y, 0.0), 0.0, pow(y, 1 - p.p))};
  out.sums.op = ReduceOp::Sum;
  return out;
}

}  // namespace

Term power_pool_tangent(Term x, Term y, Term dx, const PoolAttrs& p) {
  const PowerPool w = power_pool(x, y, p);
  return make(OpKind::Pool, {w.of_x * dx}, w.sums) * w.of_y;
}
Term power_pool_gradient(Term x, Term y, Term dy, const PoolAttrs& p) {
  const PowerPool w = power_pool(x, y, p);
  return sum_pool_gradient(dy * w.of_y, w.sums, x.dims()) * w.of_x;
}

Term added_at(std::vector<Dim> dims, Term positions, Term updates) {
  if (!positions.valid() || !updates.valid()) return positions.with({});
  Builder& b = *updates.b;
  const Dim all = b.dims().product(dims), count = b.dims().product(updates.dims());
  const Term into = zeros(b, updates.dtype(), {all});
  return reshape(make(OpKind::ScatterElements, {into, reshape(positions, {count}), reshape(updates, {count})},
                      ScatterAttrs{0, Reduction::Add}),
                 std::move(dims));
}

}  // namespace rlxc::transform
