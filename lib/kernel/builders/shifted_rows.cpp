// Windows of single channels, and of all channels for few results, on CPU threads: computes vectors of a result row at a time.
// Each element of the window is a vector of the phase-split image.
#include <algorithm>

#include "kernel/builders/conv.h"

namespace rlxc::kernel {
namespace {

constexpr int64_t kMostTaps = 32;  // largest window that is unrolled with its weights in registers
constexpr int kMostVectors = 4;    // of a row that are summed together

class ShiftedRows {
 public:
  // `vectors`: whether to compute vectors, if they fit.
  ShiftedRows(Builder& b, const WindowSpec& s, const Mapping& m, bool vectors = true)
      : b_(b), s_(s), m_(m), image_(b.kernel(), s), unrolled_(taps_of(s) <= kMostTaps), width_(s.out_size.back().in(b.kernel())) {
    if (vectors) lanes_ = m.vector_lanes(rlxc::bits(s.accumulate) / 8);
    if (constant(width_, &columns_))
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

  // Calls line(batch, channel, row) for every row of the result. `line` must call columns() once.
  void lines(int64_t depth, const std::function<void(Expr batch, Expr channel, Expr row)>& line) {
    const Expr channels = s_.out_channels.in(b_.kernel()), all = rows();
    int64_t n = 256;
    constant(width_, &n);
    for_each(b_, m_, "line", s_.batch.in(b_.kernel()) * channels * all, n * taps_of(s_) * depth, [&](Expr i) {
      line(b_.let("batch", i / (channels * all)), b_.let("channel", i / all % channels), b_.let("row", i % all));
    });
  }

  // Calls body(row, column, window, lanes) for every vector of the plane. If the width is known, the last vector of a row
  // overlaps the previous one.
  void rows(Expr batch, Expr in_channel, const std::function<void(Expr row, Expr column, Expr window, int lanes)>& body) {
    b_.loop("row", rows(), [&](Expr row) {
      if (columns_ == 0)
        return columns(batch, in_channel, row, 1,
                       [&](Expr column, Expr window, int lanes, int) { body(row, column, window, lanes); });
      const Expr first = window_of(batch, in_channel, row);
      b_.loop("v", ceil_div(width_, int64_t{lanes_}), [&](Expr v) {
        const Expr column = b_.let("column", lanes_ == 1 ? v : min(v * lanes_, width_ - lanes_));
        body(row, column, first + column, lanes_);
      });
    });
  }

  // Calls body(column, window, lanes, count) for all columns of a row: by `most` vectors, by vectors, and one by one.
  void columns(Expr batch, Expr in_channel, Expr row, int most, const std::function<void(Expr, Expr, int, int)>& body) {
    const Expr window = window_of(batch, in_channel, row);
    Expr done = b_.i64(0);
    std::vector<std::pair<int, int>> blocks{{lanes_, 1}, {1, 1}};
    if (most > 1) blocks.insert(blocks.begin(), {lanes_, most});
    for (const std::pair<int, int>& block : blocks) {
      const int lanes = block.first, count = block.second;
      const int64_t step = int64_t{lanes} * count;
      const Expr steps = (width_ - done) / step;
      b_.loop("v", steps, [&](Expr v) {
        const Expr column = b_.let("column", done + v * step);
        body(column, window + column, lanes, count);
      });
      if (step == 1) break;
      done = done + steps * step;
    }
  }
  Expr load(Expr at, int lanes) const { return cast_to(x_.load(at, lanes), s_.accumulate); }
  Expr plane() const { return image_.plane(); }

  // Calls body(tap, value) for every element of the window.
  void taps(Expr window, int lanes, const std::function<void(Expr, Expr)>& body) {
    each_tap([&](Expr tap, Expr offset) { body(tap, load(window + offset, lanes)); });
  }
  void each_tap(const std::function<void(Expr tap, Expr offset)>& body) {
    std::function<void(size_t, Expr, Expr)> axis = [&](size_t d, Expr tap, Expr offset) {
      if (d == s_.kernel.size()) return body(tap, offset);
      auto step = [&](Expr t) { axis(d + 1, tap * s_.kernel[d] + t, offset + image_.tap(d, t)); };
      if (!unrolled_) return b_.loop("t", s_.kernel[d], step);
      for (int64_t t = 0; t < s_.kernel[d]; ++t) step(b_.i64(t));
    };
    axis(0, b_.i64(0), b_.i64(0));
  }

  bool unrolled() const { return unrolled_; }
  Expr width() const { return width_; }

 private:
  Expr rows() const { return product(b_.kernel(), s_.out_size, 0, s_.out_size.size() - 1); }
  Expr window_of(Expr batch, Expr channel, Expr row) {
    return b_.let("window", (batch * s_.in_channels.in(b_.kernel()) + channel) * image_.plane() + image_.row(row));
  }

  Builder& b_;
  const WindowSpec& s_;
  const Mapping& m_;
  const PhaseSplitImage image_;
  const bool unrolled_;
  const Expr width_;
  int64_t columns_ = 0;  // of a known width
  int lanes_ = 1;
  Buf x_;
};

// A convolution of shifted rows.
class ConvRows {
 public:
  ConvRows(Builder& b, const WindowSpec& s, int64_t group_channels, const Mapping& m)
      : b_(b), k_(b.kernel()), s_(s), depth_(group_channels), taps_(taps_of(s)), shifted_(b, s, m) {
    const Expr channels = s.out_channels.in(k_);
    w_ = b.input("w", s.weight, channels * (depth_ * taps_));
    shifted_.add_image();
    if (s.w_zero) w_zero_ = b.input(s.w_zero->name, s.w_zero->dtype, s.w_zero->extent);
    inputs_ = FusedInputs(b, s.epilogue.inputs);
    y_ = shifted_.add_result();
    per_group_ = channels / s.groups;
  }

  void single_channels() {
    shifted_.planes([&](Expr batch, Expr channel) {
      std::vector<Expr> weights;
      for (int64_t t = 0; t < taps_ && shifted_.unrolled(); ++t) weights.push_back(b_.let("f", weight(channel, b_.i64(t))));
      shifted_.rows(batch, channel / per_group_, [&](Expr row, Expr column, Expr window, int lanes) {
        Buf sum = zero(lanes);
        shifted_.taps(window, lanes, [&](Expr tap, Expr value) {
          int64_t number = 0;
          const bool known = shifted_.unrolled() && constant(tap, &number);
          add(sum, value, known ? weights[static_cast<size_t>(number)] : weight(channel, tap));
        });
        write(batch, channel, row, column, sum.get(), lanes);
      });
    });
  }

  void all_channels() {
    shifted_.lines(depth_, [&](Expr batch, Expr channel, Expr row) {
      const Expr first = b_.let("first", channel / per_group_ * depth_);
      shifted_.columns(batch, first, row, kMostVectors, [&](Expr column, Expr window, int lanes, int count) {
        std::vector<Buf> sums;
        for (int v = 0; v < count; ++v) sums.push_back(zero(lanes));
        b_.loop("c", depth_, [&](Expr c) {
          const Expr from = b_.let("from", window + c * shifted_.plane());
          shifted_.each_tap([&](Expr tap, Expr offset) {
            const Expr f = b_.let("f", weight(channel, c * taps_ + tap));
            for (int v = 0; v < count; ++v) add(sums[static_cast<size_t>(v)], shifted_.load(from + offset + v * lanes, lanes), f);
          });
        });
        for (int v = 0; v < count; ++v) write(batch, channel, row, column + v * lanes, sums[static_cast<size_t>(v)].get(), lanes);
      });
    });
  }

 private:
  Expr weight(Expr channel, Expr tap) const {
    const Expr v = cast_to(w_[channel * (depth_ * taps_) + tap], s_.accumulate);
    return s_.w_zero ? v - cast_to(w_zero_[channel * s_.w_zero->strides[0].in(k_)], s_.accumulate) : v;
  }
  Buf zero(int lanes) { return b_.variable("sum", broadcast(constant_int(k_, s_.accumulate, 0), lanes)); }
  void add(Buf& sum, Expr value, Expr weight) {
    const Expr f = broadcast(weight, value.type().lanes);
    sum.set(is_float(s_.accumulate) ? fma(value, f, sum.get()) : value * f + sum.get());
  }

  void write(Expr batch, Expr channel, Expr row, Expr column, Expr sum, int lanes) {
    const Expr position = row * shifted_.width() + column;
    const Expr all = inputs_.values(s_.epilogue.body, {&sum, 1}, {batch, channel, position})[0];
    y_.store((batch * s_.out_channels.in(k_) + channel) * product(k_, s_.out_size) + position,
             broadcast(cast_to(all, s_.output), lanes));
  }

  Builder& b_;
  Kernel* k_;
  const WindowSpec& s_;
  const int64_t depth_, taps_;
  ShiftedRows shifted_;
  Expr per_group_;  // result channels
  Buf w_, w_zero_, y_;
  FusedInputs inputs_;
};

}  // namespace

void build_conv_rows(Builder& b, const WindowSpec& s, int64_t group_channels, const Mapping& m) {
  ConvRows rows(b, s, group_channels, m);
  group_channels == 1 ? rows.single_channels() : rows.all_channels();
}

void build_pool_rows(Builder& b, const PoolSpec& p, const Mapping& m) {
  const WindowSpec& s = p.window;
  Kernel* k = b.kernel();
  int64_t columns = 0;
  constant(s.out_size.back(), &columns);
  ShiftedRows shifted(b, s, m, !p.counts || columns > 0);
  shifted.add_image();
  const FusedInputs inputs(b, p.epilogue.inputs);
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
    Buf counts;
    if (p.counts && columns > 0) {
      counts = b.registers("counts", s.accumulate, columns);
      b.loop("o", columns, [&](Expr o) { counts.store(o, cast_to(count(last, o), s.accumulate)); });
    }
    shifted.rows(batch, channel, [&](Expr row, Expr column, Expr window, int lanes) {
      Buf acc = b.variable("acc", broadcast(p.start(k), lanes));
      shifted.taps(window, lanes, [&](Expr, Expr value) { acc.set(p.step(acc.get(), value)); });
      Expr n = b.i64(1);
      if (p.counts) {
        const std::vector<Expr> at = split_index(row, Dims(s.out_size.begin(), s.out_size.end() - 1));
        for (size_t d = 0; d < last; ++d) n = n * count(d, at[d]);
        n = columns ? cast_to(n, s.accumulate) * counts.load(column, lanes) : n * count(last, column);
      }
      const Expr roots[] = {acc.get(), n}, place = row * shifted.width() + column;
      const Expr value = inputs.values(p.epilogue.body, roots, {batch, channel, place})[0];
      y.store(plane + row * shifted.width() + column, broadcast(cast_to(value, s.output), lanes));
    });
  });
}

}  // namespace rlxc::kernel
