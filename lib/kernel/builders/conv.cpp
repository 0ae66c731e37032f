#include "kernel/builders/conv.h"

#include <algorithm>

#include "kernel/builders/gemm.h"
#include "kernel/builders/generate.h"

namespace rlxc::kernel {
namespace {

constexpr int64_t kMostTaps = 32;  // whose weights stay in registers

// Where things are in a spread image.
class Image {
 public:
  Image(Kernel* k, const WindowSpec& s) : k_(k), s_(s), axes_(spread_axes(s)) {
    Expr pitch = constant_int(k, DType::I64, 1);
    pitch_.resize(axes_.size());
    for (size_t d = axes_.size(); d-- > 0;) {
      pitch_[d] = pitch;
      pitch = pitch * (length(d) * axes_[d].phases);
    }
    plane_ = pitch;
  }
  Expr length(size_t d) const { return s_.out_size[d].in(k_)*axes_[d].step + axes_[d].extra; }
  Expr plane() const { return plane_; }
  Expr elements() const { return s_.batch.in(k_)*s_.in_channels.in(k_)*plane_; }
  // The first element of the window of result `row` (all axes but the last, linear).
  Expr row(Expr r) const {
    const std::vector<Expr> at = split_index(r, Dims(s_.out_size.begin(), s_.out_size.end() - 1));
    Expr offset = constant_int(k_, DType::I64, 0);
    for (size_t d = 0; d < at.size(); ++d) offset = offset + at[d] * axes_[d].step * pitch_[d];
    return offset;
  }
  Expr tap(size_t d, Expr t) const {
    const Expr i = t * s_.dilations[d];
    return (i % axes_[d].phases * length(d) + i / axes_[d].phases) * pitch_[d];
  }
  const std::vector<SpreadAxis>& axes() const { return axes_; }

 private:
  Kernel* k_;
  const WindowSpec& s_;
  std::vector<SpreadAxis> axes_;
  std::vector<Expr> pitch_;
  Expr plane_;
};

int64_t taps_of(const WindowSpec& s) {
  int64_t n = 1;
  for (int64_t k : s.kernel) n *= k;
  return n;
}

// Rows of the panel are (channel, tap), its columns a piece of the result, which is made of pieces of rows of the result.
void fill_windows(const WindowSpec& s, int64_t group_channels, const Panel& p) {
  Builder& b = *p.builder;
  Kernel* k = b.kernel();
  const Image image(k, s);
  const int64_t taps = taps_of(s);
  const Expr width = s.out_size.back().in(k), columns = product(k, s.out_size);
  const Expr first = b.let("first_row", p.column / width), end = b.let("end", min(p.column + p.width, columns));
  const Expr runs = b.let("runs", (end - 1) / width - first + 1);
  Buf from = b.registers("run_from", DType::I64, p.width), to = b.registers("run_to", DType::I64, p.width),
      length = b.registers("run_length", DType::I64, p.width);
  b.loop("run", runs, [&](Expr i) {
    const Expr row = first + i, begin = b.let("begin", max(row * width, p.column));
    from.store(i, image.row(row) + begin - row * width);
    to.store(i, begin - p.column);
    length.store(i, min(row * width + width, end) - begin);
  });
  const Expr zero = broadcast(constant_int(k, p.to.type().dtype, 0), p.lanes);
  b.when(end < p.column + p.width,
         [&] { b.loop("i", p.count * (p.width / p.lanes), [&](Expr i) { p.to.store(i * p.lanes, zero); }); });
  const Expr base = b.let("base", (p.batch[0] * s.in_channels.in(k) + p.batch[1] * group_channels + p.k0 / taps) * image.plane());
  b.loop("c", p.count / taps, [&](Expr c) {
    const Expr channel = b.let("channel", base + c * image.plane());
    std::function<void(size_t, Expr, Expr)> axis = [&](size_t d, Expr tap, Expr offset) {
      if (d < s.kernel.size()) {
        auto step = [&](Expr t) { axis(d + 1, tap * s.kernel[d] + t, offset + image.tap(d, t)); };
        return s.kernel[d] == 1 ? step(b.i64(0)) : b.loop("t", s.kernel[d], step);
      }
      const Expr source = b.let("source", channel + offset), row = b.let("row", (c * taps + tap) * p.width);
      b.loop("run", runs, [&](Expr i) {
        const Expr start = b.let("start", source + from.load(i)), at = b.let("at", row + to.load(i));
        for (int64_t j = 0; j < p.width; j += p.lanes) {
          auto copy = [&] { p.to.store(at + j, cast_to(p.from.load(start + j, p.lanes), p.to.type().dtype)); };
          j == 0 ? copy() : b.when(length.load(i) > j, copy);
        }
      });
    };
    axis(0, b.i64(0), b.i64(0));
  });
}

Operand spread_operand(Kernel* k, const WindowSpec& s) {
  const Image image(k, s);
  return {"image", s.x_zero ? s.accumulate : s.input, {}, image.elements() + (is_spread(s) ? 0 : kSpreadSlack), 0};
}

// Group i of the channels of an operand with strides {batch, channel, position}.
Operand grouped(Kernel* k, const Operand& o, const Index& channels) {
  Operand g = o;
  g.strides = {o.strides[0], o.strides[1].in(k)*channels.in(k), o.strides[1], o.strides[2]};
  return g;
}

Operand result_operand(Kernel* k, const WindowSpec& s) {
  const Expr plane = product(k, s.out_size), channels = s.out_channels.in(k);
  return {"y", s.output, {channels * plane, plane, 1}, s.batch.in(k)*channels * plane, 0};
}

void conv_product(Builder& b, const WindowSpec& s, int64_t group_channels, const Mapping& m) {
  Kernel* k = b.kernel();
  const int64_t taps = taps_of(s), depth = group_channels * taps;
  const Image image(k, s);
  GemmSpec g;
  const Expr rows = s.out_channels.in(k) / s.groups;
  g.batch = {s.batch, Index(s.groups)}, g.m = rows, g.n = product(k, s.out_size), g.k = depth;
  g.accumulate = s.accumulate;
  g.a = {"w", s.weight, {0, rows * depth, depth, 1}, s.out_channels.in(k)*depth, 0};
  g.b = spread_operand(k, s);
  g.b.strides = {s.in_channels.in(k)*image.plane(), group_channels * image.plane(), image.plane(), 1};
  if (taps > 1) {
    g.b_at = [&](const std::vector<Expr>& batch, Expr at, Expr column) {
      Expr tap = at % taps, offset = (batch[0] * s.in_channels.in(k) + batch[1] * group_channels + at / taps) * image.plane();
      for (size_t d = s.kernel.size(); d-- > 0; tap = tap / s.kernel[d]) offset = offset + image.tap(d, tap % s.kernel[d]);
      const Expr width = s.out_size.back().in(k);
      return offset + image.row(column / width) + column % width;
    };
    g.fill = [&](const Panel& p) { fill_windows(s, group_channels, p); };
    g.k_step = taps;
  }
  if (s.w_zero) {
    g.a_zero = *s.w_zero;
    g.a_zero->strides = {0, s.w_zero->strides[0].in(k)*rows, s.w_zero->strides[0]};
  }
  for (const Operand& o : s.extras) g.extras.push_back(grouped(k, o, rows));
  g.c = grouped(k, result_operand(k, s), rows);
  g.epilogue = s.epilogue;
  build_gemm(b, g, m);
}

// A vector of a row of the result at a time; the last vector of a row overlaps the one before it.
void depthwise(Builder& b, const WindowSpec& s, const Mapping& m) {
  Kernel* k = b.kernel();
  const Image image(k, s);
  const int64_t taps = taps_of(s);
  const Expr channels = s.out_channels.in(k), width = s.out_size.back().in(k);
  const Expr rows = product(k, s.out_size, 0, s.out_size.size() - 1), multiplier = channels / s.groups;
  Buf w = b.input("w", s.weight, channels * taps);
  const Operand spread = spread_operand(k, s);
  Buf x = b.input(spread.name, spread.dtype, spread.extent), w_zero;
  if (s.w_zero) w_zero = b.input(s.w_zero->name, s.w_zero->dtype, s.w_zero->extent);
  std::vector<Buf> extras;
  for (const Operand& o : s.extras) extras.push_back(b.input(o.name, o.dtype, o.extent));
  const Operand result = result_operand(k, s);
  Buf y = b.output(result.name, result.dtype, result.extent);
  int lanes = m.vector_lanes(rlxc::bits(s.accumulate) / 8);
  int64_t n = 0, r = 16;
  if (!constant(width, &n)) lanes = 1;
  while (lanes > n && lanes > 1) lanes /= 2;
  constant(rows, &r);
  for_each(b, m, "plane", s.batch.in(k)*channels, r * n * taps, [&](Expr plane) {
    const Expr batch = b.let("batch", plane / channels), channel = b.let("channel", plane % channels);
    const Expr base = b.let("base", (batch * s.in_channels.in(k) + channel / multiplier) * image.plane());
    auto weight = [&](Expr t) {
      const Expr v = cast_to(w[channel * taps + t], s.accumulate);
      return s.w_zero ? v - cast_to(w_zero[channel * s.w_zero->strides[0].in(k)], s.accumulate) : v;
    };
    std::vector<Expr> weights;
    for (int64_t t = 0; t < taps && taps <= kMostTaps; ++t) weights.push_back(b.let("f", weight(b.i64(t))));
    b.loop("row", rows, [&](Expr row) {
      const Expr window = b.let("window", base + image.row(row));
      b.loop("v", ceil_div(width, int64_t{lanes}), [&](Expr v) {
        const Expr at = b.let("at", lanes == 1 ? v : min(v * lanes, width - lanes));
        Buf sum = b.variable("sum", broadcast(constant_int(k, s.accumulate, 0), lanes));
        std::function<void(size_t, Expr, Expr)> axis = [&](size_t d, Expr tap, Expr offset) {
          auto step = [&](Expr t) { axis(d + 1, tap * s.kernel[d] + t, offset + image.tap(d, t)); };
          if (d < s.kernel.size() && weights.empty()) return b.loop("t", s.kernel[d], step);
          if (d < s.kernel.size()) {
            for (int64_t t = 0; t < s.kernel[d]; ++t) step(b.i64(t));
            return;
          }
          int64_t number = 0;
          const Expr f = weights.empty() || !constant(tap, &number) ? weight(tap) : weights[static_cast<size_t>(number)];
          const Expr value = cast_to(x.load(window + at + offset, lanes), s.accumulate);
          sum.set(is_float(s.accumulate) ? fma(value, broadcast(f, lanes), sum.get()) : value * broadcast(f, lanes) + sum.get());
        };
        axis(0, b.i64(0), b.i64(0));
        const Expr position = row * width + at;
        auto place = [&](const Operand& o) {
          return batch * o.strides[0].in(k) + channel * o.strides[1].in(k) + position * o.strides[2].in(k);
        };
        std::vector<Expr> extra;
        for (size_t i = 0; i < extras.size(); ++i) {
          int64_t stride = 0;
          const bool repeated = constant(s.extras[i].strides[2], &stride) && stride == 0;
          extra.push_back(cast_to(extras[i].load(place(s.extras[i]), repeated ? 1 : lanes), compute_dtype(s.extras[i].dtype)));
        }
        const Expr all = s.epilogue ? s.epilogue(sum.get(), extra) : sum.get();
        y.store(place(result), broadcast(cast_to(all, s.output), lanes));
      });
    });
  });
}

}  // namespace

std::vector<SpreadAxis> spread_axes(const WindowSpec& s) {
  std::vector<SpreadAxis> axes(s.kernel.size());
  for (size_t d = 0; d < axes.size(); ++d) {
    SpreadAxis& a = axes[d];
    const int64_t reach = (s.kernel[d] - 1) * s.dilations[d];
    if (s.kernel[d] == 1) a.source_step = s.strides[d];
    else if (d + 1 < axes.size()) a.step = s.strides[d], a.extra = reach;
    else a.phases = a.source_step = s.strides[d], a.extra = (reach + s.strides[d] - 1) / s.strides[d];
  }
  return axes;
}

bool is_spread(const WindowSpec& s) {
  bool plain = !s.x_zero;
  for (size_t d = 0; d < s.kernel.size(); ++d)
    plain = plain && s.kernel[d] == 1 && s.strides[d] == 1 && s.pads_begin[d] == 0 && s.pads_end[d] == 0;
  return plain;
}

void build_spread(Builder& b, const WindowSpec& s, const Mapping& m) {
  Kernel* k = b.kernel();
  const Image image(k, s);
  const Operand spread = spread_operand(k, s);
  Buf x = b.input("x", s.input, s.batch.in(k)*s.in_channels.in(k)*product(k, s.in_size)), x_zero;
  if (s.x_zero) x_zero = b.input(s.x_zero->name, s.x_zero->dtype, s.x_zero->extent);
  Buf y = b.output(spread.name, spread.dtype, spread.extent);
  const size_t last = s.kernel.size() - 1;
  Dims rows = {s.batch, s.in_channels};
  for (size_t d = 0; d < last; ++d) rows.push_back(image.length(d));
  const SpreadAxis& axis = image.axes()[last];
  const Expr size = s.in_size[last].in(k), length = image.length(last);
  for_each(b, m, "row", product(k, rows), 512, [&](Expr row) {
    const std::vector<Expr> at = split_index(row, rows);
    Expr inside = constant_int(k, DType::Bool, 1), line = at[0] * s.in_channels.in(k) + at[1];
    for (size_t d = 0; d < last; ++d) {
      const Expr n = s.in_size[d].in(k), i = b.let("i", at[d + 2] * image.axes()[d].source_step - s.pads_begin[d]);
      inside = inside && i >= 0 && i < n;
      line = line * n + i;
    }
    const Expr reads = b.let("reads", inside), from = b.let("from", line * size);
    const Expr zero = constant_int(k, spread.dtype, 0);
    for (int64_t f = 0; f < axis.phases; ++f) {
      const Expr to = row * (length * axis.phases) + f * length;
      const int64_t shift = f - s.pads_begin[last];
      auto reach = [&](Expr i) { return max(min(ceil_div(i, axis.source_step), length), 0); };  // elements before element i
      const Expr begin = b.let("begin", select(reads, reach(b.i64(-shift)), length));
      const Expr end = b.let("end", max(select(reads, reach(size - shift), length), begin));
      b.loop("j", begin, [&](Expr j) { y.store(to + j, zero); });
      b.loop("j", end - begin, [&](Expr j) {
        const Expr i = begin + j;
        Expr v = cast_to(x[from + i * axis.source_step + shift], spread.dtype);
        if (s.x_zero) v = v - cast_to(x_zero[0], spread.dtype);
        y.store(to + i, v);
      });
      b.loop("j", length - end, [&](Expr j) { y.store(to + end + j, zero); });
    }
  });
}

void build_conv(Builder& b, const WindowSpec& s, int64_t group_channels, const Mapping& m) {
  group_channels == 1 && s.groups > 1 ? depthwise(b, s, m) : conv_product(b, s, group_channels, m);
}

}  // namespace rlxc::kernel
