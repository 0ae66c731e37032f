// Depthwise convolutions and pooling of blocked images: a task is a block of channels of some rows. Windows that reach beyond the
// image skip what is outside: at its sides in tiles of their own, above and below by fewer rows. Images that must be converted,
// and windows too large to unroll, are copied with their padding to the task's own memory, which the nearest caches hold. Images
// of open sizes are never copied: windows that reach beyond their sides are computed one by one.
#include <algorithm>
#include <tuple>

#include "kernel/builders/blocked.h"

namespace rlxc::kernel {
namespace {

constexpr int64_t kMostPixels = 14;   // results that are computed together
constexpr int64_t kMostTaps = 25;     // largest window that is unrolled
constexpr size_t kMostSides = 3;      // most tiles of a row whose windows reach beyond its sides
constexpr int64_t kFewPixels = 4;     // results that are computed together at the end of an open row
constexpr int64_t kAssumedSize = 56;  // of an open image, in costs

class BlockedRows {
 public:
  // `wide`: the type of the values that taps() passes.
  BlockedRows(Builder& b, const BlockedWindows& w, DType wide, const Index& blocks, const Mapping& m)
      : b_(b),
        m_(m),
        w_(w),
        wide_(wide),
        blocks_(blocks.in(b.kernel())),
        images_(w.batch.in(b.kernel())),
        lanes_(static_cast<int>(w.block)),
        from_steps_(steps(w.image, w.in_size(b.kernel(), 1))),
        to_steps_(steps(w.result, w.out_size(b.kernel(), 1))),
        pitch_(from_steps_.row),
        pixel_(from_steps_.pixel) {
    // Sums, a row of weights and an element of the image are in registers.
    const int64_t most = std::clamp<int64_t>(m.vector_registers - w.kernel[1] - 2, kMostPixels / 2, kMostPixels);
    if (w.open) {
      columns_ = most;
      skips_rows_ = w.reaches_beyond(0);
      return;
    }
    columns_ = ceil_div(w.out[1], ceil_div(w.out[1], most));
    for (int64_t c = 0; c < w.out[1]; c += columns_)
      if (!inside(c, std::min(columns_, w.out[1] - c))) sides_.push_back(c);
    padded_ = (is_integer(w.dtype) && is_float(wide)) ||
              (w.padded() && (w.dtype != wide || w.taps() > kMostTaps || sides_.size() > kMostSides));
    skips_rows_ = !padded_ && w.reaches_beyond(0);
    if (padded_) pitch_ = b.i64(w.span(1) * w.block), pixel_ = w.block;
    const int64_t room = m.blocking.window_bytes / 4 / (w.span(1) * w.block) - (w.kernel[0] - 1) * w.dilation[0] - 1;
    const int64_t bands = padded_ ? (w.out[0] - 1) / (std::max<int64_t>(room, 0) / w.stride[0] + 1) + 1 : 1;
    band_ = (w.out[0] + bands - 1) / bands;
  }

  void add_image() {
    const Index extent =
        w_.image ? w_.image->extent : Index(blocks_ * (images_ * (w_.in_size(b_.kernel(), 0) * from_steps_.row)));
    x_ = b_.input("x", w_.dtype, extent);
    if (w_.zero) zero_ = b_.input(w_.zero->name, w_.zero->dtype, w_.zero->extent);
  }
  Buf add_result(DType t) {
    const Index extent =
        w_.result ? w_.result->extent : Index(blocks_ * (images_ * (w_.out_size(b_.kernel(), 0) * to_steps_.row)));
    return b_.output("y", t, extent);
  }

  // Calls begin(block of channels), then tile(row, column, count, window of the first pixel) for neighbouring pixels of a row.
  void each(const std::function<Expr(Kernel*)>& padding, const std::function<void(Expr)>& begin,
            const std::function<void(Expr, Expr, int64_t, Expr)>& tile) {
    const int64_t bands = w_.open ? 1 : ceil_div(w_.out[0], band_);
    const int64_t pixels = w_.open ? kAssumedSize * kAssumedSize : band_ * w_.out[1];
    const int64_t bytes = 4 * pixels * w_.block * (w_.taps() + 4) / 4;
    for_each(b_, m_, "work", blocks_ * (images_ * bands), bytes, [&](Expr work) {
      const Expr plane = b_.let("plane", work / bands), row0 = b_.let("row0", work % bands * band_);
      Expr rows = w_.out_size(b_.kernel(), 0);
      if (!w_.open) rows = w_.out[0] % band_ == 0 ? b_.i64(band_) : b_.let("rows", min(rows - row0, band_));
      from_ = x_;
      const Expr before = padded_ ? b_.i64(0) : pitch_ * w_.pad[0] + w_.pad[1] * pixel_;
      Expr base = b_.let("base", start(w_.image, from_steps_, w_.in_size(b_.kernel(), 0), plane) +
                                     (row0 * (from_steps_.row * w_.stride[0]) - before));
      if (w_.open && zero_.builder()) zero_value_ = b_.let("zero", cast_to(zero_[0], wide_));
      if (padded_) {
        copy_rows(plane, row0 * w_.stride[0] - w_.pad[0], rows, padding);
        base = b_.i64(0);
      }
      begin(b_.let("block", w_.one_image() ? plane : plane % blocks_));
      to_ = b_.let("result", start(w_.result, to_steps_, w_.out_size(b_.kernel(), 0), plane));
      b_.loop("row", rows, [&](Expr row) {
        if (skips_rows_) std::tie(first_tap_, taps_) = taps_within(0, row0 + row);
        const auto pixels = [&](Expr column, int64_t count) {
          const Expr window = b_.let("window", base + row * (pitch_ * w_.stride[0]) + column * (w_.stride[1] * pixel_));
          tile(row0 + row, column, count, window);
        };
        if (w_.open) return open_row(pixels);
        int64_t done = 0;
        const auto until = [&](int64_t end) {
          const int64_t first = done;
          b_.loop("tile", (end - first) / columns_, [&](Expr t) { pixels(b_.let("column", t * columns_ + first), columns_); });
          done = first + (end - first) / columns_ * columns_;
        };
        for (size_t i = 0; i < sides_.size() && !padded_; ++i) {
          until(sides_[i]);
          side_ = sides_[i];
          done = std::min(done + columns_, w_.out[1]);
          pixels(b_.i64(*side_), done - *side_);
          side_.reset();
        }
        until(w_.out[1]);
        if (done < w_.out[1]) pixels(b_.i64(done), w_.out[1] - done);
      });
    });
  }

  // Calls body(pixel, weight, value) for each element of the windows of `count` pixels, where weight(tap) is called once for each
  // row of taps, or is null.
  using Weight = std::function<Expr(Expr tap)>;
  using Body = std::function<void(int64_t pixel, Expr weight, Expr value)>;
  void taps(Expr window, int64_t count, const Weight& weight, const Body& body) {
    if (w_.taps() > kMostTaps || beyond_sides_)
      return b_.loop("ky", skips_rows_ ? taps_ : b_.i64(w_.kernel[0]), [&](Expr y) {
        const Expr ky = skips_rows_ ? b_.let("ky", first_tap_ + y) : y;
        b_.loop("kx", beyond_sides_ ? column_taps_ : b_.i64(w_.kernel[1]), [&](Expr x) {
          const Expr kx = beyond_sides_ ? b_.let("kx", first_column_tap_ + x) : x;
          const Expr f = weight ? weight(ky * w_.kernel[1] + kx) : Expr();
          const Expr at = window + ky * (pitch_ * w_.dilation[0]) + kx * (w_.dilation[1] * pixel_);
          for (int64_t i = 0; i < count; ++i) body(i, f, load(at + i * w_.stride[1] * pixel_));
        });
      });
    if (skips_rows_) return b_.loop("ky", taps_, [&](Expr i) { row_of_taps(window, first_tap_ + i, count, weight, body); });
    for (int64_t ky = 0; ky < w_.kernel[0]; ++ky) row_of_taps(window, b_.i64(ky), count, weight, body);
  }

  // Element of the result at which the vector of a pixel begins.
  Expr place(Expr row, Expr column) const { return to_ + row * to_steps_.row + column * to_steps_.pixel; }
  int64_t pixel() const { return to_steps_.pixel; }  // distance of neighbouring pixels of the result
  int lanes() const { return lanes_; }

 private:
  // Distances in elements. Pixels of such images have a constant number of channels.
  struct Steps {
    Expr row;
    int64_t pixel;
  };
  Steps steps(const std::optional<Operand>& o, Expr columns) const {
    return o ? Steps{o->strides[2].in(b_.kernel()), constant_value(o->strides[3])} : Steps{columns * w_.block, w_.block};
  }
  // The first element of a plane: a block of channels of an image.
  Expr start(const std::optional<Operand>& o, const Steps& s, Expr rows, Expr plane) const {
    if (!o) return plane * (rows * s.row);
    const Expr first = o->offset.in(b_.kernel());
    if (w_.one_image()) return first + plane * w_.block;
    return first + plane / blocks_ * o->strides[0].in(b_.kernel()) + plane % blocks_ * w_.block;
  }

  Expr load(Expr at) const {
    const Expr v = cast_to(from_.load(at, lanes_), wide_);
    return zero_value_.kernel ? v - zero_value_ : v;
  }

  // Calls pixels(column, count) for a row of an open size.
  void open_row(const std::function<void(Expr, int64_t)>& pixels) {
    const int64_t reach = (w_.kernel[1] - 1) * w_.dilation[1], stride = w_.stride[1];
    const Expr columns = w_.out_size(b_.kernel(), 1);
    const bool sides = w_.reaches_beyond(1);
    Expr first = b_.i64(0), end = columns;  // of the pixels whose windows are within the image's sides
    const auto beyond = [&](Expr from, Expr to) {
      b_.loop("side", to - from, [&](Expr i) {
        const Expr column = b_.let("column", from + i);
        std::tie(first_column_tap_, column_taps_) = taps_within(1, column);
        beyond_sides_ = true;
        pixels(column, 1);
        beyond_sides_ = false;
      });
    };
    if (sides) {
      first = b_.let("first", min(columns, ceil_div(w_.pad[1], stride)));
      const Expr room = w_.in_size(b_.kernel(), 1) + (w_.pad[1] - reach);
      end = b_.let("end", max(min(max(room + (stride - 1), 0) / stride, columns), first));
      beyond(b_.i64(0), first);
    }
    for (const int64_t count : {columns_, kFewPixels, int64_t{1}}) {
      const Expr tiles = b_.let("tiles", (end - first) / count), from = first;
      b_.loop("tile", tiles, [&](Expr t) { pixels(b_.let("column", from + t * count), count); });
      first = b_.let("first", first + tiles * count);
    }
    if (sides) beyond(end, columns);
  }

  // Whether the windows of `count` pixels of a row from `column` on are within the image's sides.
  bool inside(int64_t column, int64_t count) const {
    const int64_t first = column * w_.stride[1] - w_.pad[1];
    return first >= 0 && first + (count - 1) * w_.stride[1] + (w_.kernel[1] - 1) * w_.dilation[1] < w_.in[1];
  }

  // The first of the taps along an axis that are within the image, and their number, for the result at `position`.
  std::pair<Expr, Expr> taps_within(size_t axis, Expr position) {
    const int64_t step = w_.dilation[axis];
    const Expr line = b_.let("line", position * w_.stride[axis] - w_.pad[axis]), size = w_.in_size(b_.kernel(), axis);
    const Expr first = b_.let("first_tap", (max(-line, 0) + (step - 1)) / step);
    return {first, b_.let("taps", max(min((max(size - line, 0) + (step - 1)) / step, w_.kernel[axis]) - first, 0))};
  }

  // An element of the image is loaded once for all windows that have it.
  void row_of_taps(Expr window, Expr ky, int64_t count, const Weight& weight, const Body& body) {
    const Expr at = b_.let("at", window + ky * (pitch_ * w_.dilation[0]));
    const int64_t taps = w_.kernel[1], step = w_.dilation[1], stride = w_.stride[1];
    std::vector<Expr> weights(static_cast<size_t>(taps));
    for (int64_t kx = 0; kx < taps && weight; ++kx) weights[static_cast<size_t>(kx)] = weight(ky * taps + kx);
    for (int64_t column = 0; column <= (count - 1) * stride + (taps - 1) * step; ++column) {
      const int64_t of_image = side_.value_or(0) * stride - w_.pad[1] + column;
      if (side_ && (of_image < 0 || of_image >= w_.in[1])) continue;
      Expr x;
      for (int64_t kx = taps; kx-- > 0;) {
        const int64_t first = column - kx * step;
        if (first < 0 || first % stride != 0 || first / stride >= count) continue;
        if (!x.kernel) x = b_.hold("x", load(at + column * pixel_));
        body(first / stride, weights[static_cast<size_t>(kx)], x);
      }
    }
  }

  void copy_rows(Expr plane, Expr first, Expr rows, const std::function<Expr(Kernel*)>& padding) {
    const int64_t reach = (w_.kernel[0] - 1) * w_.dilation[0] + 1;
    from_ = b_.registers("band", wide_, ((band_ - 1) * w_.stride[0] + reach) * w_.span(1) * w_.block);
    const int64_t width = w_.span(1), left = std::min(w_.pad[1], width), copied = std::clamp<int64_t>(width - left, 0, w_.in[1]);
    const Expr outside = b_.let("outside", broadcast(padding ? padding(b_.kernel()) : b_.value(wide_, 0), lanes_));
    const Expr zero = zero_.builder() ? b_.let("zero", cast_to(zero_[0], wide_)) : Expr();
    b_.loop("r", (rows - 1) * w_.stride[0] + reach, [&](Expr r) {
      const Expr line = b_.let("line", first + r), to = b_.let("to", r * pitch_);
      const auto fill = [&](int64_t at, int64_t count) {
        b_.loop("p", count, [&](Expr p) { from_.store(to + (p + at) * w_.block, outside); });
      };
      b_.when(
          line >= 0 && line < w_.in[0],
          [&] {
            const Expr source = b_.let("source", start(w_.image, from_steps_, b_.i64(w_.in[0]), plane) + line * from_steps_.row);
            fill(0, left);
            b_.loop("p", copied, [&](Expr p) {
              const Expr v = cast_to(x_.load(source + p * from_steps_.pixel, lanes_), wide_);
              from_.store(to + (p + left) * w_.block, zero.kernel ? v - zero : v);
            });
            fill(left + copied, width - left - copied);
          },
          [&] { fill(0, width); });
    });
  }

  Builder& b_;
  const Mapping& m_;
  const BlockedWindows& w_;
  const DType wide_;
  const Expr blocks_, images_;
  const int lanes_;
  const Steps from_steps_, to_steps_;
  bool padded_ = false;                  // whether rows are copied
  bool skips_rows_ = false;              // whether a window may have fewer rows of taps
  std::vector<int64_t> sides_;           // first pixels of the tiles whose windows reach beyond the image's sides
  std::optional<int64_t> side_;          // of the present tile
  Expr first_tap_, taps_;                // rows of taps of the present row
  bool beyond_sides_ = false;            // whether the present pixel's window, of an open row, reaches beyond the image's sides
  Expr first_column_tap_, column_taps_;  // its columns of taps
  int64_t columns_ = 1, band_ = 1;       // pixels per tile, result rows per task
  Expr pitch_;                           // distances of the rows and pixels that windows read
  int64_t pixel_ = 1;
  Buf x_, zero_, from_;
  Expr zero_value_;  // that load() subtracts
  Expr to_;
};

}  // namespace

void build_pack_depthwise(Builder& b, const BlockedWindows& w, DType weight, Index blocks, const Mapping& m) {
  const int64_t taps = w.taps();
  const Expr channels = blocks.in(b.kernel()) * w.block;
  Buf from = b.input("w", weight, channels * taps), to = b.output("out", DType::F32, channels * taps);
  for_each(b, m, "channel", channels, 8 * taps, [&](Expr c) {
    const Expr base = b.let("base", c / w.block * (taps * w.block) + c % w.block);
    b.loop("tap", taps, [&](Expr tap) { to.store(base + tap * w.block, cast_to(from[c * taps + tap], DType::F32)); });
  });
}

void build_depthwise_blocked(Builder& b, const BlockedConv& s, Index blocks, const Mapping& m) {
  const BlockedWindows& w = s.windows;
  BlockedRows rows(b, w, DType::F32, blocks, m);
  Buf weights = b.input("w", DType::F32, blocks.in(b.kernel()) * (w.block * w.taps()));
  rows.add_image();
  BlockedEpilogue epilogue(b, s.epilogue);
  Buf y = rows.add_result(s.result);
  Expr block;
  const auto tile = [&](Expr row, Expr column, int64_t count, Expr window) {
    std::vector<Buf> sums;
    for (int64_t i = 0; i < count; ++i) sums.push_back(b.variable("sum", broadcast(b.f32(0), rows.lanes())));
    rows.taps(
        window, count, [&](Expr tap) { return b.let("f", weights.load((block * w.taps() + tap) * w.block, rows.lanes())); },
        [&](int64_t i, Expr weight, Expr x) {
          Buf& sum = sums[static_cast<size_t>(i)];
          sum.set(fma(x, weight, sum.get()));
        });
    const Expr at = b.let("at", rows.place(row, column));
    for (int64_t i = 0; i < count; ++i) {
      const Expr sum = cast_to(sums[static_cast<size_t>(i)].get(), s.float_sums ? DType::F32 : s.accumulator());
      y.store(at + i * rows.pixel(), cast_to(epilogue.values({&sum, 1}, at + i * rows.pixel())[0], s.result));
    }
  };
  rows.each(
      nullptr,
      [&](Expr of) {
        block = of;
        epilogue.begin(of * w.block, rows.lanes());
      },
      tile);
}

void build_pool_blocked(Builder& b, const BlockedWindows& w, const PoolFunction& p, Index blocks, const Mapping& m) {
  BlockedRows rows(b, w, compute_dtype(w.dtype), blocks, m);
  rows.add_image();
  BlockedEpilogue epilogue(b, p.epilogue);
  Buf y = rows.add_result(w.dtype);
  // Returns the number of counted elements of the window at o along an axis.
  const auto counted = [&](size_t d, Expr o) {
    const int64_t step = w.dilation[d];
    const Expr size = w.in_size(b.kernel(), d) + (p.count_padding ? w.pad_end[d] : 0);
    const Expr from = o * w.stride[d] - w.pad[d];
    const Expr before = p.count_padding ? b.i64(0) : (max(-from, 0) + (step - 1)) / step;
    return max(min((max(size - from, 0) + (step - 1)) / step, w.kernel[d]) - before, 0);
  };
  const auto tile = [&](Expr row, Expr column, int64_t count, Expr window) {
    std::vector<Buf> best;
    for (int64_t i = 0; i < count; ++i) best.push_back(b.variable("acc", broadcast(p.start(b.kernel()), rows.lanes())));
    rows.taps(window, count, nullptr, [&](int64_t i, Expr, Expr x) {
      Buf& acc = best[static_cast<size_t>(i)];
      acc.set(p.step(acc.get(), x));
    });
    const Expr at = b.let("at", rows.place(row, column));
    const Expr down = p.counts ? b.let("down", counted(0, row)) : Expr();
    for (int64_t i = 0; i < count; ++i) {
      const Expr n = p.counts ? down * counted(1, column + i) : b.i64(0);
      const Expr roots[] = {best[static_cast<size_t>(i)].get(), n}, to = at + i * rows.pixel();
      y.store(to, broadcast(cast_to(epilogue.values(roots, to)[0], w.dtype), rows.lanes()));
    }
  };
  rows.each(
      p.start, [&](Expr block) { epilogue.begin(block * w.block, rows.lanes()); }, tile);
}

}  // namespace rlxc::kernel
