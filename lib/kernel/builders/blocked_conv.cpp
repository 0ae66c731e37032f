#include <algorithm>
#include <bit>

#include "kernel/builders/blocked.h"

namespace rlxc::kernel {
namespace {

constexpr int64_t kImageBytes = 256 << 10;  // of the image that a task reads: a quarter of a second cache
constexpr int64_t kLeastTasks = 16;
constexpr int64_t kTermsOfStep = 4;    // channels, or taps of a row, per step of the innermost loop
constexpr int64_t kLineElements = 16;  // of a cache line

// Vectors of results per tile, and of the last panel if they do not divide the blocks of a group.
struct PanelVectors {
  int64_t all, last;
};
PanelVectors panel_vectors(const BlockedConv& s) {
  const int64_t blocks = s.blocks();
  if (blocks == 1) return {1, 0};
  const int64_t all = blocks % 2 != 0 && blocks % 3 == 0 ? 3 : 2;
  return {all, blocks % all};
}

// Splits `size` into nearly equal pieces of at most `most`.
int64_t piece(int64_t size, int64_t most) {
  const int64_t pieces = (size + most - 1) / most;
  return (size + pieces - 1) / pieces;
}

// The image, tiles of results, and tasks of several tiles.
struct TileShape {
  TileShape(const BlockedConv& s, const Mapping& m) : vectors(panel_vectors(s)), out(s.windows.out) {
    const BlockedWindows& w = s.windows;
    pitch = w.extent(1) * w.block;
    plane = w.extent(0) * pitch;
    // Positions of a window of one element are one row.
    if (w.taps() == 1 && w.stride == std::array<int64_t, 2>{1, 1} && w.in == w.out && !w.padded()) out = {1, w.out[0] * w.out[1]};
    // A tile holds its sums, a row of weights and a broadcast element in registers.
    const int64_t most = std::min<int64_t>((m.vector_registers - 1 - vectors.all) / vectors.all, kMostPixels);
    columns = piece(out[1], most);
    rows = columns == out[1] ? piece(out[0], std::max<int64_t>(most / columns, 1)) : 1;
    across = (out[1] + columns - 1) / columns;
    tiles = across * ((out[0] + rows - 1) / rows);
    panels = (s.blocks() + vectors.all - 1) / vectors.all;
    const int64_t bytes = 4 * w.channels / s.groups / w.block * plane;
    const int64_t bands = std::clamp<int64_t>(
        std::max((bytes + kImageBytes - 1) / kImageBytes, kLeastTasks / (panels * s.groups * w.batch)), 1, tiles);
    band = piece(tiles, (tiles + bands - 1) / bands);
  }

  static constexpr int64_t kMostPixels = 14;
  PanelVectors vectors;
  std::array<int64_t, 2> out;     // rows and columns of results, as tiles divide them
  int64_t pitch, plane;           // of a row and of a block of the image
  int64_t rows, columns;          // of a tile
  int64_t across, tiles, panels;  // tiles of a row, of an image; panels of a group
  int64_t band;                   // tiles per task
};

class BlockedTiles {
 public:
  BlockedTiles(Builder& b, const BlockedConv& s, const Index& blocks, const Index& band, const Mapping& m)
      : b_(b),
        s_(s),
        m_(m),
        w_(s.windows),
        t_(s, m),
        blocks_(blocks.in(b.kernel())),
        band_(band.in(b.kernel())),
        group_(s.group()),
        depth_(blocks_ * (w_.taps() * w_.block / group_)) {}

  void run() {
    const int64_t positions = w_.out[0] * w_.out[1];
    weights_ = b_.input("w", s_.packed(), depth_ * (s_.groups * s_.blocks() * s_.lanes));
    image_ = b_.input("image", s_.image(), blocks_ * (w_.batch * s_.groups * t_.plane));
    for (const auto* o : {&s_.epilogue.bias, &s_.epilogue.residual})
      extras_.push_back(*o ? b_.input((*o)->name, (*o)->dtype, (*o)->extent) : Buf());
    y_ = b_.output("y", w_.dtype, w_.batch * s_.groups * s_.blocks() * s_.lanes * positions);
    const Expr tasks = ceil_div(b_.i64(t_.tiles), band_);
    // A product takes less time than moving a byte.
    const int64_t work = t_.band * t_.rows * t_.columns * s_.depth() * t_.vectors.all * s_.lanes / 8;
    for_each(b_, m_, "work", tasks * (w_.batch * s_.groups * t_.panels), work, [&](Expr task) {
      const Expr panel = b_.let("panel", task % t_.panels), rest = b_.let("rest", task / t_.panels);
      const Expr image = b_.let("n", rest / tasks), group = b_.let("group", image % s_.groups);
      block0_ = b_.let("block", group * s_.blocks() + panel * t_.vectors.all);
      from_ = b_.let("from", block0_ * s_.lanes * depth_);
      in_ = b_.let("in", image * blocks_ * t_.plane);
      to_ = b_.let("to", (image * s_.blocks() + panel * t_.vectors.all) * (s_.lanes * positions));
      const Expr first = b_.let("first", rest % tasks * band_), count = b_.let("count", min(t_.tiles - first, band_));
      if (t_.vectors.last == 0) return panel_of(t_.vectors.all, first, count);
      b_.when(
          panel < t_.panels - 1, [&] { panel_of(t_.vectors.all, first, count); },
          [&] { panel_of(t_.vectors.last, first, count); });
    });
  }

 private:
  void panel_of(int64_t vectors, Expr first, Expr count) {
    b_.loop("t", count, [&](Expr t) {
      fetch_begin(vectors, t);
      const Expr tile = b_.let("tile", first + t);
      const Expr row = b_.let("row", tile / t_.across * t_.rows), column = b_.let("column", tile % t_.across * t_.columns);
      const auto columns = [&](int64_t rows) {
        either(column, t_.columns, t_.out[1], [&](int64_t c) { sum(vectors, row, column, rows, c); });
      };
      either(row, t_.rows, t_.out[0], columns);
    });
  }

  // Calls body(size) for whole tiles along an axis, and for the last one if it is smaller.
  void either(Expr at, int64_t size, int64_t whole, const std::function<void(int64_t)>& body) {
    if (whole % size == 0) return body(size);
    b_.when(
        at + size <= whole, [&] { body(size); }, [&] { body(whole % size); });
  }

  // Each tile fetches its share of the next panel, so that weights come from memory while others are multiplied.
  void fetch_begin(int64_t vectors, Expr t) {
    fetched_ = 0;
    if (w_.block % kTermsOfStep != 0) return;
    const int64_t lines = kTermsOfStep / group_ * vectors * s_.lanes / kLineElements;  // of the panel, for each step
    fetched_ = std::clamp<int64_t>((lines + t_.band - 1) / t_.band, 1, 8);
    const int64_t shares = (lines + fetched_ - 1) / fetched_;
    const Expr share = depth_ / (kTermsOfStep / group_) * (fetched_ * kLineElements);
    next_ = b_.let("next", from_ + depth_ * (vectors * s_.lanes) + min(t, shares - 1) * share);
  }

  void sum(int64_t vectors, Expr row, Expr column, int64_t rows, int64_t columns) {
    std::vector<Buf> sums;
    for (int64_t i = 0; i < rows * columns * vectors; ++i)
      sums.push_back(b_.variable("sum", broadcast(b_.f32(0), static_cast<int>(s_.lanes))));
    const Expr start = b_.let("start", in_ + row * (w_.stride[0] * t_.pitch) + column * (w_.stride[1] * w_.block));
    const int64_t width = vectors * s_.lanes;
    // Adds the products of one channel of all pixels, or of two on a dot unit.
    const auto step = [&](Expr image, Expr weights, int64_t c) {
      std::vector<Expr> w;
      for (int64_t v = 0; v < vectors; ++v)
        w.push_back(
            b_.let("w", factor(weights_.load(weights + (c / group_ * width + v * s_.lanes), static_cast<int>(s_.lanes)))));
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t q = 0; q < columns; ++q) {
          const int64_t at = r * w_.stride[0] * t_.pitch + q * w_.stride[1] * w_.block + c;
          const Expr pixel = image_.load(image + at, static_cast<int>(group_));
          const Expr word = s_.dots ? bitcast_to(pixel, Type(DType::I32)) : pixel;
          const Expr x = b_.let("x", factor(broadcast(word, static_cast<int>(s_.lanes))));
          for (int64_t v = 0; v < vectors; ++v) {
            Buf& sum = sums[static_cast<size_t>((r * columns + q) * vectors + v)];
            const Expr y = w[static_cast<size_t>(v)];
            sum.set(s_.dots ? dot(x, y, sum.get()) : fma(x, y, sum.get()));
          }
        }
    };
    const auto fetch = [&](Expr number) {
      for (int64_t i = 0; i < fetched_; ++i) weights_.prefetch(next_ + (number * fetched_ + i) * kLineElements);
    };
    b_.loop("c", blocks_, [&](Expr cb) {
      b_.loop("ky", w_.kernel[0], [&](Expr ky) {
        const Expr line = b_.let("line", start + cb * t_.plane + ky * (w_.dilation[0] * t_.pitch));
        const Expr taps = b_.let("taps", (cb * w_.kernel[0] + ky) * (w_.kernel[1] * w_.block));
        const auto tap = [&](Expr kx) {
          const int64_t unrolled = std::min(w_.block, kTermsOfStep);
          b_.loop("u", w_.block / unrolled, [&](Expr u) {
            const Expr number = b_.let("number", (taps + kx * w_.block) / unrolled + u);
            const Expr image = b_.let("at", line + kx * (w_.dilation[1] * w_.block) + u * unrolled);
            const Expr weights = b_.let("weights", from_ + number * (unrolled / group_ * width));
            fetch(number);
            for (int64_t c = 0; c < unrolled; c += group_) step(image, weights, c);
          });
        };
        if (w_.block > 1 || w_.kernel[1] > kTermsOfStep) return b_.loop("kx", w_.kernel[1], tap);
        for (int64_t kx = 0; kx < w_.kernel[1]; ++kx) tap(b_.i64(kx));
      });
    });
    write(sums, vectors, row, column, rows, columns);
  }

  // A vector of words as the dot unit reads it.
  Expr factor(Expr v) const { return s_.dots ? bitcast_to(v, Type(DType::BF16, 2 * v.lanes())) : v; }

  void write(const std::vector<Buf>& sums, int64_t vectors, Expr row, Expr column, int64_t rows, int64_t columns) {
    const int lanes = static_cast<int>(s_.lanes);
    const int64_t positions = w_.out[0] * w_.out[1];
    for (int64_t v = 0; v < vectors; ++v) {
      const Expr at = b_.let("at", to_ + (row * t_.out[1] + column + v * positions) * s_.lanes);
      Expr bias;
      if (s_.epilogue.bias) bias = b_.let("bias", cast_to(extras_[0].load((block0_ + v) * s_.lanes, lanes), DType::F32));
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t q = 0; q < columns; ++q) {
          Expr y = sums[static_cast<size_t>((r * columns + q) * vectors + v)].get();
          const int64_t pixel = (r * t_.out[1] + q) * s_.lanes;
          if (s_.epilogue.bias) y = y + bias;
          if (s_.epilogue.residual) y = y + cast_to(extras_[1].load(at + pixel, lanes), DType::F32);
          y_.store(at + pixel, cast_to(s_.epilogue.act ? s_.epilogue.act(y) : y, w_.dtype));
        }
    }
  }

  Builder& b_;
  const BlockedConv& s_;
  const Mapping& m_;
  const BlockedWindows& w_;
  const TileShape t_;
  const Expr blocks_, band_;
  const int64_t group_;  // channels of a product
  const Expr depth_;     // products of a sum
  int64_t fetched_ = 0;  // lines per step
  Buf weights_, image_, y_;
  std::vector<Buf> extras_;
  Expr block0_, from_, in_, to_, next_;
};

}  // namespace

bool BlockedWindows::padded() const {
  for (size_t d = 0; d < 2; ++d)
    if (pad[d] > 0 || span(d) > in[d]) return true;
  return false;
}

void build_pad_blocked(Builder& b, const BlockedWindows& w, DType type, Index blocks, const Mapping& m) {
  const Expr all = blocks.in(b.kernel());
  const int64_t from_pitch = w.in[1] * w.block, to_pitch = w.extent(1) * w.block;
  const int64_t left = w.pad[1] * w.block, copied = std::clamp<int64_t>(to_pitch - left, 0, from_pitch);
  Buf x = b.input("x", w.dtype, all * (w.in[0] * from_pitch));
  Buf y = b.output("image", type, all * (w.extent(0) * to_pitch));
  // Calls body(first, lanes) for vectors, then for the remaining elements.
  const auto each = [&](int64_t count, const std::function<void(Expr, int)>& body) {
    int lanes = m.vector_lanes(4);
    while (lanes > count) lanes /= 2;
    if (lanes == 0) return;
    b.loop("v", count / lanes, [&](Expr v) { body(v * lanes, lanes); });
    if (count % lanes) b.loop("e", count % lanes, [&](Expr e) { body(e + count / lanes * lanes, 1); });
  };
  for_each(b, m, "row", all * w.extent(0), 8 * to_pitch, [&](Expr row) {
    const Expr line = b.let("line", row % w.extent(0) - w.pad[0]), to = b.let("to", row * to_pitch);
    const auto zero = [&](Expr at, int64_t count) {
      each(count, [&](Expr i, int lanes) { y.store(at + i, broadcast(cast_to(b.f32(0), type), lanes)); });
    };
    b.when(
        line >= 0 && line < w.in[0],
        [&] {
          const Expr from = b.let("from", (row / w.extent(0) * w.in[0] + line) * from_pitch);
          zero(to, std::min(left, to_pitch));
          each(copied, [&](Expr i, int lanes) { y.store(to + left + i, cast_to(x.load(from + i, lanes), type)); });
          zero(to + left + copied, to_pitch - std::min(left, to_pitch) - copied);
        },
        [&] { zero(to, to_pitch); });
  });
}

PanelPlace panel_place(Builder& b, const BlockedConv& s, Expr block, Expr depth) {
  const PanelVectors vectors = panel_vectors(s);
  const int64_t whole = s.blocks() / vectors.all;
  const Expr in_panel = block % vectors.all;
  const Expr first = b.let("place", (block - in_panel) * s.lanes * depth + in_panel * s.lanes);
  if (vectors.last == 0) return {first, b.i64(vectors.all * s.lanes)};
  const Expr width = select(block / vectors.all < whole, b.i64(vectors.all), b.i64(vectors.last));
  return {first, b.let("width", width * s.lanes)};
}

void build_pack_blocked(Builder& b, const BlockedConv& s, Index blocks, const Mapping& m) {
  const BlockedWindows& w = s.windows;
  const int64_t taps = w.taps(), lanes = s.lanes;
  const Expr channels = blocks.in(b.kernel()) * w.block, depth = channels * taps;
  Buf from = b.input("w", s.weight, depth * (s.groups * s.group_outputs));
  Buf to = b.output("out", s.packed(), depth / s.group() * (s.groups * s.blocks() * lanes));
  for_each(b, m, "block", s.groups * s.blocks(), 1 << 16, [&](Expr block) {
    const Expr own = b.let("own", block % s.blocks());
    const PanelPlace place = panel_place(b, s, own, depth / s.group());
    const Expr base = b.let("base", (block - own) * lanes * (depth / s.group()) + place.first);
    const Expr first = b.let("first", (block / s.blocks() * s.group_outputs + own * lanes) * depth);
    const Expr outputs =
        s.group_outputs % lanes == 0 ? b.i64(lanes) : b.let("outputs", min(s.group_outputs - own * lanes, lanes));
    const auto word = [&](Expr at, int64_t channel) {
      return cast_to(bitcast_to(cast_to(from[at + channel * taps], DType::BF16), DType::U16), DType::I32) << 16 * channel;
    };
    b.loop("c", channels / s.group(), [&](Expr number) {
      const Expr c = number * s.group();
      b.loop("tap", taps, [&](Expr tap) {
        const Expr step = ((c / w.block * taps + tap) * w.block + c % w.block) / s.group();
        const Expr at = b.let("at", base + step * place.step), source = b.let("source", first + c * taps + tap);
        b.loop("o", outputs, [&](Expr o) {
          const Expr own_source = source + o * depth;
          to.store(at + o, s.dots ? word(own_source, 0) | word(own_source, 1) : cast_to(from[own_source], DType::F32));
        });
        b.loop("o", lanes - outputs, [&](Expr o) { to.store(at + outputs + o, cast_to(b.f32(0), s.packed())); });
      });
    });
  });
}

void build_conv_blocked(Builder& b, const BlockedConv& s, Index blocks, Index band, const Mapping& m) {
  BlockedTiles(b, s, blocks, band, m).run();
}

bool conv_fits_blocked_dots(const BlockedConv& s, const Mapping& m) {
  const auto fits = [&](const DotUnit& u) {
    return u.a == DType::BF16 && u.b == DType::BF16 && u.accumulator == DType::F32 && u.group == 2 && u.lanes == s.lanes;
  };
  const bool halves = s.windows.dtype == DType::BF16 && s.weight == DType::BF16;
  return halves && s.windows.block % kTermsOfStep == 0 && std::ranges::any_of(m.dot_units, fits);
}

int64_t tiles_per_task(const BlockedConv& s, const Mapping& m) { return TileShape(s, m).band; }

}  // namespace rlxc::kernel
