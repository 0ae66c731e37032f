// Windows of single channels on CPU threads: computes a vector of a result row at a time. Each element of the window is a vector
// of the phase-split image.
#include <algorithm>

#include "kernel/builders/conv.h"

namespace rlxc::kernel {
namespace {

constexpr int64_t kMostTaps = 32;  // largest window that is unrolled with its weights in registers

class ShiftedRows {
 public:
  ShiftedRows(Builder& b, const WindowSpec& s, const Mapping& m)
      : b_(b), s_(s), m_(m), image_(b.kernel(), s), unrolled_(taps_of(s) <= kMostTaps), width_(s.out_size.back().in(b.kernel())) {
    lanes_ = constant(width_, &columns_) ? m.vector_lanes(rlxc::bits(s.accumulate) / 8) : 1;
    while (lanes_ > 1 && lanes_ > columns_) lanes_ /= 2;
  }

  void add_image() {
    const Operand o = image_.operand("image");
    x_ = b_.input(o.name, o.dtype, o.extent);
  }
  Buf add_result() {
    return b_.output("y", s_.output,
                     s_.batch.in(b_.kernel()) * s_.out_channels.in(b_.kernel()) * product(b_.kernel(), s_.out_size));
  }

  // Calls plane(batch, channel) for every plane of the result. `plane` must call rows() once.
  void planes(const std::function<void(Expr batch, Expr channel)>& plane) {
    const Expr channels = s_.out_channels.in(b_.kernel());
    int64_t n = 256;
    constant(product(b_.kernel(), s_.out_size), &n);
    for_each(b_, m_, "plane", s_.batch.in(b_.kernel()) * channels, n * taps_of(s_),
             [&](Expr i) { plane(b_.let("batch", i / channels), b_.let("channel", i % channels)); });
  }

  // Calls body(row, column, window) for every vector of the plane. The last vector of a row overlaps the previous one.
  void rows(Expr batch, Expr in_channel, const std::function<void(Expr row, Expr column, Expr window)>& body) {
    const Expr base = b_.let("base", (batch * s_.in_channels.in(b_.kernel()) + in_channel) * image_.plane());
    b_.loop("row", product(b_.kernel(), s_.out_size, 0, s_.out_size.size() - 1), [&](Expr row) {
      const Expr window = b_.let("window", base + image_.row(row));
      b_.loop("v", ceil_div(width_, int64_t{lanes_}), [&](Expr v) {
        const Expr column = b_.let("column", lanes_ == 1 ? v : min(v * lanes_, width_ - lanes_));
        body(row, column, window + column);
      });
    });
  }

  // Calls body(tap, value) for every element of the window.
  void taps(Expr window, const std::function<void(Expr, Expr)>& body) {
    std::function<void(size_t, Expr, Expr)> axis = [&](size_t d, Expr tap, Expr offset) {
      if (d == s_.kernel.size()) return body(tap, cast_to(x_.load(window + offset, lanes_), s_.accumulate));
      auto step = [&](Expr t) { axis(d + 1, tap * s_.kernel[d] + t, offset + image_.tap(d, t)); };
      if (!unrolled_) return b_.loop("t", s_.kernel[d], step);
      for (int64_t t = 0; t < s_.kernel[d]; ++t) step(b_.i64(t));
    };
    axis(0, b_.i64(0), b_.i64(0));
  }

  int lanes() const { return lanes_; }
  bool unrolled() const { return unrolled_; }
  Expr width() const { return width_; }

 private:
  Builder& b_;
  const WindowSpec& s_;
  const Mapping& m_;
  const PhaseSplitImage image_;
  const bool unrolled_;
  const Expr width_;
  int64_t columns_ = 0;
  int lanes_ = 1;
  Buf x_;
};

}  // namespace

void build_depthwise_rows(Builder& b, const WindowSpec& s, const Mapping& m) {
  Kernel* k = b.kernel();
  ShiftedRows shifted(b, s, m);
  const int64_t taps = taps_of(s);
  const int lanes = shifted.lanes();
  const Expr channels = s.out_channels.in(k), multiplier = channels / s.groups, plane = product(k, s.out_size);
  Buf w = b.input("w", s.weight, channels * taps), w_zero;
  shifted.add_image();
  if (s.w_zero) w_zero = b.input(s.w_zero->name, s.w_zero->dtype, s.w_zero->extent);
  std::vector<Buf> extras;
  for (const Operand& o : s.extras) extras.push_back(b.input(o.name, o.dtype, o.extent));
  Buf y = shifted.add_result();
  shifted.planes([&](Expr batch, Expr channel) {
    auto weight = [&](Expr t) {
      const Expr v = cast_to(w[channel * taps + t], s.accumulate);
      return s.w_zero ? v - cast_to(w_zero[channel * s.w_zero->strides[0].in(k)], s.accumulate) : v;
    };
    std::vector<Expr> weights;
    for (int64_t t = 0; t < taps && shifted.unrolled(); ++t) weights.push_back(b.let("f", weight(b.i64(t))));
    shifted.rows(batch, channel / multiplier, [&](Expr row, Expr column, Expr window) {
      Buf sum = b.variable("sum", broadcast(constant_int(k, s.accumulate, 0), lanes));
      shifted.taps(window, [&](Expr tap, Expr value) {
        int64_t number = 0;
        const bool known = shifted.unrolled() && constant(tap, &number);
        const Expr f = broadcast(known ? weights[static_cast<size_t>(number)] : weight(tap), lanes);
        sum.set(is_float(s.accumulate) ? fma(value, f, sum.get()) : value * f + sum.get());
      });
      const Expr position = row * shifted.width() + column;
      std::vector<Expr> extra;
      for (size_t i = 0; i < extras.size(); ++i) {
        const Operand& o = s.extras[i];
        int64_t stride = 0;
        const bool repeated = constant(o.strides[2], &stride) && stride == 0;
        const Expr at = batch * o.strides[0].in(k) + channel * o.strides[1].in(k) + position * o.strides[2].in(k);
        extra.push_back(cast_to(extras[i].load(at, repeated ? 1 : lanes), compute_dtype(o.dtype)));
      }
      const Expr all = s.epilogue ? s.epilogue(sum.get(), extra) : sum.get();
      y.store((batch * channels + channel) * plane + position, broadcast(cast_to(all, s.output), lanes));
    });
  });
}

void build_pool_rows(Builder& b, const PoolSpec& p, const Mapping& m) {
  const WindowSpec& s = p.window;
  Kernel* k = b.kernel();
  ShiftedRows shifted(b, s, m);
  shifted.add_image();
  Buf y = shifted.add_result();
  const size_t last = s.kernel.size() - 1;
  // Returns the number of counted elements of the window at o along axis d.
  auto count = [&](size_t d, Expr o) {
    const Expr from = o * s.strides[d] - s.pads_begin[d], n = s.in_size[d].in(k) + (p.count_padding ? s.pads_end[d] : 0);
    const int64_t step = s.dilations[d];
    const Expr before = p.count_padding ? b.i64(0) : (max(-from, 0) + (step - 1)) / step;
    return max(min((max(n - from, 0) + (step - 1)) / step, s.kernel[d]) - before, 0);
  };
  shifted.planes([&](Expr batch, Expr channel) {
    const Expr plane = b.let("plane", (batch * s.out_channels.in(k) + channel) * product(k, s.out_size));
    int64_t columns = 0;
    Buf counts;
    if (p.counts && constant(shifted.width(), &columns)) {
      counts = b.registers("counts", s.accumulate, columns);
      b.loop("o", columns, [&](Expr o) { counts.store(o, cast_to(count(last, o), s.accumulate)); });
    }
    shifted.rows(batch, channel, [&](Expr row, Expr column, Expr window) {
      Buf acc = b.variable("acc", broadcast(p.start(k), shifted.lanes()));
      shifted.taps(window, [&](Expr, Expr value) { acc.set(p.step(acc.get(), value)); });
      Expr n = b.i64(1);
      if (p.counts) {
        const std::vector<Expr> at = split_index(row, Dims(s.out_size.begin(), s.out_size.end() - 1));
        for (size_t d = 0; d < last; ++d) n = n * count(d, at[d]);
        n = columns ? cast_to(n, s.accumulate) * counts.load(column, shifted.lanes()) : n * count(last, column);
      }
      y.store(plane + row * shifted.width() + column, broadcast(cast_to(p.finish(acc.get(), n), s.output), shifted.lanes()));
    });
  });
}

}  // namespace rlxc::kernel
