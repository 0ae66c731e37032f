#include <algorithm>
#include <bit>

#include "kernel/builders/blocked.h"

namespace rlxc::kernel {
namespace {

constexpr int64_t kLeastTasks = 16;
constexpr int64_t kTermsOfStep =
    4;  // channels (of integers: words of channels), or taps of a row, per step of the innermost loop
constexpr int64_t kLineElements = 16;  // of weights in a cache line

// Vectors of results per tile, and of the last panel if they do not divide the blocks of a group.
struct PanelVectors {
  int64_t all, last;
};

// Splits `size` into nearly equal pieces of at most `most`.
int64_t piece(int64_t size, int64_t most) {
  const int64_t pieces = (size + most - 1) / most;
  return (size + pieces - 1) / pieces;
}

// Rows and columns of results as tiles divide them. Positions of a window of one element are one row.
std::array<int64_t, 2> divided_results(const BlockedWindows& w) {
  if (w.taps() == 1 && w.stride == std::array<int64_t, 2>{1, 1} && w.in == w.out && !w.padded()) return {1, w.out[0] * w.out[1]};
  return w.out;
}

// Rows and columns of a tile, which holds its sums, a row of weights and a broadcast element in registers.
std::array<int64_t, 2> tile_of(const std::array<int64_t, 2>& out, int64_t vectors, const Mapping& m) {
  constexpr int64_t kMostPixels = 14;
  const int64_t most = std::min<int64_t>((m.vector_registers - 1 - vectors) / vectors, kMostPixels),
                columns = piece(out[1], most);
  return {columns == out[1] ? piece(out[0], std::max<int64_t>(most / columns, 1)) : 1, columns};
}

// The time of all panels of `vectors` vectors, in multiply-adds. Tiles of fewer sums than are in flight take as long as these.
int64_t time_of_panels(const BlockedConv& s, int64_t vectors, const Mapping& m) {
  constexpr int64_t kInFlight = 8;
  const std::array<int64_t, 2> out = divided_results(s.windows), tile = tile_of(out, vectors, m);
  const auto panel = [&](int64_t own) {
    int64_t time = 0;
    for (const int64_t rows : {tile[0], out[0] % tile[0]})
      for (const int64_t columns : {tile[1], out[1] % tile[1]}) {
        const int64_t tiles = (rows == tile[0] ? out[0] / rows : 1) * (columns == tile[1] ? out[1] / columns : 1);
        if (rows * columns > 0) time += tiles * std::max(rows * columns * own, kInFlight);
      }
    return time;
  };
  const int64_t last = s.blocks() % vectors;
  return s.blocks() / vectors * panel(vectors) + (last ? panel(last) : 0);
}

PanelVectors panel_vectors(const BlockedConv& s, const Mapping& m) {
  const int64_t blocks = s.blocks();
  if (blocks == 1) return {1, 0};
  const bool three =
      blocks >= 3 && ((blocks % 3 == 0 && blocks % 2 != 0) || time_of_panels(s, 3, m) * 20 < time_of_panels(s, 2, m) * 19);
  const int64_t all = three ? 3 : 2;
  return {all, blocks % all};
}

// The image, tiles of results, and tasks of several tiles.
struct TileShape {
  TileShape(const BlockedConv& s, const Mapping& m) : vectors(panel_vectors(s, m)), out(divided_results(s.windows)) {
    const BlockedWindows& w = s.windows;
    pitch = w.extent(1) * w.block;
    plane = w.extent(0) * pitch;
    const auto tile = tile_of(out, vectors.all, m);
    rows = tile[0];
    columns = tile[1];
    across = (out[1] + columns - 1) / columns;
    tiles = across * ((out[0] + rows - 1) / rows);
    panels = (s.blocks() + vectors.all - 1) / vectors.all;
    const int64_t bytes = (s.integers() ? 1 : 4) * w.channels / s.groups / w.block * plane;
    const int64_t bands = std::clamp<int64_t>(
        std::max((bytes - 1) / m.blocking.conv_image_bytes + 1, kLeastTasks / (panels * s.groups * w.batch)), 1, tiles);
    band = piece(tiles, (tiles + bands - 1) / bands);
  }

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
        fetch_terms_(std::min(w_.block, s.integers() ? kTermsOfStep * kWordCodes : kTermsOfStep)),
        terms_(m.has_many_registers() ? fetch_terms_ : group_),
        depth_(blocks_ * (w_.taps() * w_.block / group_)),
        rows_(depth_ + s.sum_rows()) {}

  void run() {
    const int64_t positions = w_.out[0] * w_.out[1];
    weights_ = b_.input("w", s_.packed(), rows_ * (s_.groups * s_.blocks() * s_.lanes));
    image_ = b_.input("image", s_.image(), blocks_ * (w_.batch * s_.groups * t_.plane));
    if (w_.zero) zero_ = b_.input(w_.zero->name, w_.zero->dtype, w_.zero->extent);
    extras_.emplace(b_, s_.epilogue);
    const int64_t results = w_.batch * s_.groups * s_.stored_blocks() * s_.stored_block() * positions;
    y_ = b_.output("y", s_.result, results);
    for (const Operand& o : s_.epilogue.also) also_.push_back(b_.output(o.name, o.dtype, results));
    const Expr tasks = ceil_div(b_.i64(t_.tiles), band_);
    // A product takes less time than moving a byte.
    const int64_t work = t_.band * t_.rows * t_.columns * s_.depth() * t_.vectors.all * s_.lanes / 8;
    for_each(b_, m_, "work", tasks * (w_.batch * s_.groups * t_.panels), work, [&](Expr task) {
      const Expr panel = b_.let("panel", task % t_.panels), rest = b_.let("rest", task / t_.panels);
      const Expr image = b_.let("n", rest / tasks), group = b_.let("group", image % s_.groups);
      block0_ = b_.let("block", group * s_.blocks() + panel * t_.vectors.all);
      from_ = b_.let("from", block0_ * s_.lanes * rows_);
      in_ = b_.let("in", image * blocks_ * t_.plane);
      to_ = b_.let("to", (image * s_.stored_blocks() + panel * (t_.vectors.all * s_.parts())) * (s_.stored_block() * positions));
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
    const int64_t lines = fetch_terms_ / group_ * vectors * s_.lanes / kLineElements;  // of the panel, for so many terms
    fetched_ = std::clamp<int64_t>((lines + t_.band - 1) / t_.band, 1, 8);
    const int64_t shares = (lines + fetched_ - 1) / fetched_;
    const Expr share = depth_ / (fetch_terms_ / group_) * (fetched_ * kLineElements);
    next_ = b_.let("next", from_ + rows_ * (vectors * s_.lanes) + min(t, shares - 1) * share);
  }

  // Each tile of single elements fetches those of the next one, which are far apart: a few in each block of channels.
  void fetch_pixels(Expr line, int64_t columns) {
    const int64_t pixel = w_.stride[1] * w_.block, step = std::max<int64_t>(pixel, kLineElements * 32 / rlxc::bits(s_.image()));
    for (int64_t i = 0; i < columns * pixel; i += step) image_.prefetch(line + columns * pixel + i);
  }

  // Returns the sum before any product of vector v of a panel: the products of the zero point, subtracted.
  Expr first_sum(int64_t v, int64_t width) {
    const int lanes = static_cast<int>(s_.lanes), flip = w_.dtype == DType::I8 ? kSignFlip : 0;
    const Expr none = broadcast(b_.value(s_.accumulator(), 0), lanes);
    if (!s_.integers() || (!zero_.builder() && flip == 0)) return none;
    const Expr zero = zero_.builder() ? cast_to(zero_[0], DType::I32) + flip : b_.value(DType::I32, flip);
    return b_.let("before", none - zero * weights_.load(from_ + depth_ * width + v * lanes, lanes));
  }

  void sum(int64_t vectors, Expr row, Expr column, int64_t rows, int64_t columns) {
    const int64_t width = vectors * s_.lanes;
    std::vector<Buf> sums;
    std::vector<Expr> before;
    for (int64_t v = 0; v < vectors; ++v) before.push_back(first_sum(v, width));
    for (int64_t i = 0; i < rows * columns * vectors; ++i)
      sums.push_back(b_.variable("sum", before[static_cast<size_t>(i % vectors)]));
    const Expr start = b_.let("start", in_ + row * (w_.stride[0] * t_.pitch) + column * (w_.stride[1] * w_.block));
    // Adds the products of one channel of all pixels, or of group_ channels on a dot unit.
    const auto step = [&](Expr image, Expr weights, int64_t c) {
      std::vector<Expr> w;
      for (int64_t v = 0; v < vectors; ++v)
        w.push_back(b_.let(
            "w", factor(weights_.load(weights + (c / group_ * width + v * s_.lanes), static_cast<int>(s_.lanes)), s_.weight)));
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t q = 0; q < columns; ++q) {
          const int64_t at = r * w_.stride[0] * t_.pitch + q * w_.stride[1] * w_.block + c;
          const Expr pixel = image_.load(image + at, static_cast<int>(group_));
          const Expr word = s_.dots ? bitcast_to(pixel, Type(DType::I32)) : pixel;
          const Expr x = b_.let("x", factor(broadcast(word, static_cast<int>(s_.lanes)), s_.image()));
          for (int64_t v = 0; v < vectors; ++v) {
            Buf& sum = sums[static_cast<size_t>((r * columns + q) * vectors + v)];
            const Expr y = w[static_cast<size_t>(v)];
            sum.set(s_.dots ? dot(x, y, sum.get()) : fma(x, y, sum.get()));
          }
        }
    };
    const auto fetch = [&](Expr number) {
      const int64_t elements = fetched_ * kLineElements * terms_ / fetch_terms_;
      for (int64_t i = 0; i < elements; i += kLineElements) weights_.prefetch(next_ + number * elements + i);
    };
    b_.loop("c", blocks_, [&](Expr cb) {
      b_.loop("ky", w_.kernel[0], [&](Expr ky) {
        const Expr line = b_.let("line", start + cb * t_.plane + ky * (w_.dilation[0] * t_.pitch));
        if (w_.taps() == 1 && rows == 1) fetch_pixels(line, columns);
        const Expr taps = b_.let("taps", (cb * w_.kernel[0] + ky) * (w_.kernel[1] * w_.block));
        const auto tap = [&](Expr kx) {
          b_.loop("u", w_.block / terms_, [&](Expr u) {
            const Expr number = b_.let("number", (taps + kx * w_.block) / terms_ + u);
            const Expr image = b_.let("at", line + kx * (w_.dilation[1] * w_.block) + u * terms_);
            const Expr weights = b_.let("weights", from_ + number * (terms_ / group_ * width));
            fetch(number);
            for (int64_t c = 0; c < terms_; c += group_) step(image, weights, c);
          });
        };
        if (w_.block > 1 || w_.kernel[1] > kTermsOfStep) return b_.loop("kx", w_.kernel[1], tap);
        for (int64_t kx = 0; kx < w_.kernel[1]; ++kx) tap(b_.i64(kx));
      });
    });
    write(sums, vectors, row, column, rows, columns);
  }

  // A vector of words as the dot unit reads it.
  Expr factor(Expr v, DType t) const { return s_.dots ? bitcast_to(v, Type(t, static_cast<int>(group_) * v.lanes())) : v; }

  void write(const std::vector<Buf>& sums, int64_t vectors, Expr row, Expr column, int64_t rows, int64_t columns) {
    const int64_t positions = w_.out[0] * w_.out[1], block = s_.stored_block(), parts = s_.parts();
    Buf all;  // sums, of which parts are read
    if (parts > 1) {
      all = b_.registers("sums", s_.accumulator(), static_cast<int64_t>(sums.size()) * s_.lanes);
      for (size_t i = 0; i < sums.size(); ++i) all.store(b_.i64(static_cast<int64_t>(i) * s_.lanes), sums[i].get());
    }
    const auto sum_of = [&](int64_t number, int64_t part) {
      if (parts == 1) return sums[static_cast<size_t>(number)].get();
      return all.load(b_.i64(number * s_.lanes + part * block), static_cast<int>(block));
    };
    for (int64_t v = 0; v < vectors; ++v)
      for (int64_t part = 0; part < parts; ++part) {
        const auto store = [&] {
          const Expr at = b_.let("at", to_ + (row * t_.out[1] + column + (v * parts + part) * positions) * block);
          extras_->begin((block0_ + v) * s_.lanes + part * block, static_cast<int>(block));
          for (int64_t r = 0; r < rows; ++r)
            for (int64_t q = 0; q < columns; ++q) {
              const Expr to = at + (r * t_.out[1] + q) * block;
              const auto values = extras_->apply_all(sum_of((r * columns + q) * vectors + v, part), to);
              y_.store(to, cast_to(values[0], s_.result));
              for (size_t i = 0; i < also_.size(); ++i) also_[i].store(to, cast_to(values[i + 1], s_.epilogue.also[i].dtype));
            }
        };
        if (s_.stored_blocks() % parts == 0) store();
        else b_.when((block0_ + v) * parts + part < s_.stored_blocks(), store);
      }
  }

  Builder& b_;
  const BlockedConv& s_;
  const Mapping& m_;
  const BlockedWindows& w_;
  const TileShape t_;
  const Expr blocks_, band_;
  const int64_t group_, fetch_terms_, terms_;  // channels of a product, of a fetch, and of a step of the innermost loop
  const Expr depth_, rows_;                    // products of a sum; rows of a panel
  int64_t fetched_ = 0;                        // lines per fetch
  Buf weights_, image_, zero_, y_;
  std::vector<Buf> also_;
  std::optional<BlockedExtras> extras_;
  Expr block0_, from_, in_, to_, next_;
};

}  // namespace

bool BlockedWindows::padded() const {
  for (size_t d = 0; d < 2; ++d)
    if (pad[d] > 0 || span(d) > in[d]) return true;
  return false;
}

BlockedExtras::BlockedExtras(Builder& b, const BlockedEpilogue& e) : b_(b), e_(e) {
  for (const Operand& o : e.extras) buffers_.push_back(b.input(o.name, o.dtype, o.extent));
}

void BlockedExtras::begin(Expr channel, int lanes) {
  own_.assign(buffers_.size(), Expr());
  for (size_t i = 0; i < buffers_.size(); ++i) {
    if (!is_constant(e_.extras[i].strides[1], 0)) continue;
    const bool one = is_constant(e_.extras[i].strides[0], 0);
    const Expr v = one ? buffers_[i].load(0) : buffers_[i].load(channel, lanes);
    own_[i] = b_.let("own", broadcast(cast_to(v, compute_dtype(v.dtype())), lanes));
  }
}

std::vector<Expr> BlockedExtras::loaded(Expr sum, Expr at) const {
  std::vector<Expr> all = own_;
  for (size_t i = 0; i < all.size(); ++i)
    if (!all[i].kernel) all[i] = cast_to(buffers_[i].load(at, sum.lanes()), compute_dtype(buffers_[i].type().dtype));
  return all;
}

Expr BlockedExtras::apply(Expr sum, Expr at) const {
  const std::vector<Expr> all = loaded(sum, at);
  return e_.apply ? e_.apply(sum, all) : sum;
}

std::vector<Expr> BlockedExtras::apply_all(Expr sum, Expr at) const {
  if (!e_.apply_all) return {apply(sum, at)};
  std::vector<Expr> values = e_.apply_all(sum, loaded(sum, at));
  for (Expr& v : values) v = b_.let("value", v);
  return values;
}

void build_pad_blocked(Builder& b, const BlockedConv& s, Index blocks, const Mapping& m) {
  const BlockedWindows& w = s.windows;
  const DType type = s.image();
  const Expr all = blocks.in(b.kernel());
  const int64_t from_pitch = w.in[1] * (w.planes ? 1 : w.block), to_pitch = w.extent(1) * w.block;
  const int64_t left = w.pad[1] * w.block, copied = std::clamp<int64_t>(w.extent(1) - w.pad[1], 0, w.in[1]);
  Buf x = b.input("x", w.rounds ? DType::F32 : w.dtype,
                  w.planes ? b.i64(w.batch * w.planes * w.in[0] * from_pitch) : all * (w.in[0] * from_pitch)),
      of_zero, of_scale;
  if (w.zero) of_zero = b.input(w.zero->name, w.zero->dtype, w.zero->extent);
  if (w.rounds) of_scale = b.input(w.scale->name, w.scale->dtype, w.scale->extent);
  Buf y = b.output("image", type, all * (w.extent(0) * to_pitch));
  const auto as_read = [&](Expr v) {
    return w.dtype == DType::I8 ? bitcast_to(v, Type(type, v.lanes())) ^ kSignFlip : cast_to(v, type);
  };
  // Calls body(first, lanes) for vectors, then for the remaining elements.
  const auto each = [&](int64_t count, int64_t most, const std::function<void(Expr, int)>& body) {
    int lanes = static_cast<int>(most);
    while (lanes > count) lanes /= 2;
    if (lanes == 0) return;
    b.loop("v", count / lanes, [&](Expr v) { body(v * lanes, lanes); });
    if (count % lanes) b.loop("e", count % lanes, [&](Expr e) { body(e + count / lanes * lanes, 1); });
  };
  const int64_t widest = m.vector_lanes(s.integers() ? 1 : 4);
  for_each(b, m, "row", all * w.extent(0), 8 * to_pitch, [&](Expr row) {
    const Expr line = b.let("line", row % w.extent(0) - w.pad[0]), to = b.let("to", row * to_pitch);
    const Expr outside = as_read(of_zero.builder() ? b.let("outside", of_zero[0]) : b.value(w.dtype, 0));
    const auto fill = [&](Expr at, int64_t count) {
      each(count, widest, [&](Expr i, int lanes) { y.store(at + i, broadcast(outside, lanes)); });
    };
    const auto code_at = [&](Expr at, int lanes) {
      const Expr v = x.load(at, lanes);
      return as_read(w.rounds ? quantized(v, of_scale[0], of_zero[0]) : v);
    };
    const auto copy = [&] {
      const Expr from = b.let("from", (row / w.extent(0) * w.in[0] + line) * from_pitch);
      each(copied * w.block, w.rounds ? m.vector_lanes(4) : widest,
           [&](Expr i, int lanes) { y.store(to + left + i, code_at(from + i, lanes)); });
    };
    // Words of one element of each plane of the block. Planes beyond the last are not multiplied: their weights are zero.
    const auto interleave = [&] {
      const int64_t groups = (w.planes + w.block - 1) / w.block, plane = w.in[0] * from_pitch;
      const Expr block = b.let("block", row / w.extent(0)), first = b.let("first", block % groups * w.block);
      const Expr from = b.let("from", (block / groups * w.planes * w.in[0] + line) * from_pitch);
      each(copied, m.vector_lanes(4), [&](Expr i, int lanes) {
        Expr word = broadcast(b.value(DType::I32, 0), lanes);
        for (int64_t c = 0; c < std::min(w.block, w.planes); ++c) {
          const Expr source = b.let("source", min(first + c, b.i64(w.planes - 1)) * plane);
          word = word | cast_to(code_at(from + source + i, lanes), DType::I32) << 8 * c;
        }
        y.store(to + left + i * w.block, bitcast_to(word, Type(type, static_cast<int>(w.block) * lanes)));
      });
    };
    b.when(
        line >= 0 && line < w.in[0],
        [&] {
          fill(to, std::min(left, to_pitch));
          w.planes ? interleave() : copy();
          fill(to + left + copied * w.block, to_pitch - std::min(left, to_pitch) - copied * w.block);
        },
        [&] { fill(to, to_pitch); });
  });
}

PanelPlace panel_place(Builder& b, const BlockedConv& s, Expr block, Expr rows, const Mapping& m) {
  const PanelVectors vectors = panel_vectors(s, m);
  const int64_t whole = s.blocks() / vectors.all;
  const Expr in_panel = block % vectors.all;
  const Expr first = b.let("place", (block - in_panel) * s.lanes * rows + in_panel * s.lanes);
  if (vectors.last == 0) return {first, b.i64(vectors.all * s.lanes)};
  const Expr width = select(block / vectors.all < whole, b.i64(vectors.all), b.i64(vectors.last));
  return {first, b.let("width", width * s.lanes)};
}

void build_pack_blocked(Builder& b, const BlockedConv& s, Index blocks, const Mapping& m) {
  const BlockedWindows& w = s.windows;
  const int64_t taps = w.taps(), lanes = s.lanes;
  const Expr channels = blocks.in(b.kernel()) * w.block;
  const Expr rows = channels * taps / s.group() + s.sum_rows();
  const Expr own_channels = w.planes ? b.i64(w.planes) : channels, depth = own_channels * taps;  // of the weights
  Buf from = b.input("w", s.weight, depth * (s.groups * s.group_outputs));
  Buf to = b.output("out", s.packed(), rows * (s.groups * s.blocks() * lanes));
  for_each(b, m, "block", s.groups * s.blocks(), 1 << 16, [&](Expr block) {
    const Expr own = b.let("own", block % s.blocks());
    const PanelPlace place = panel_place(b, s, own, rows, m);
    const Expr base = b.let("base", (block - own) * lanes * rows + place.first);
    const Expr first = b.let("first", (block / s.blocks() * s.group_outputs + own * lanes) * depth);
    const Expr outputs =
        s.group_outputs % lanes == 0 ? b.i64(lanes) : b.let("outputs", min(s.group_outputs - own * lanes, lanes));
    const auto word = [&](Expr at, int64_t channel) {
      return cast_to(bitcast_to(cast_to(from[at + channel * taps], DType::BF16), DType::U16), DType::I32) << 16 * channel;
    };
    const auto add_word = [&](Expr to_word, Expr to_sum, Expr at, Expr c) {
      Expr bits = b.value(DType::I32, 0), sum = to.load(to_sum);
      for (int64_t q = 0; q < s.group(); ++q) {
        const Expr code = b.let(
            "code", w.planes ? from.load_if(c + q < own_channels, at + q * taps, b.value(DType::I8, 0)) : from[at + q * taps]);
        bits = bits | (cast_to(code, DType::I32) & 255) << 8 * q;
        sum = sum + cast_to(code, DType::I32);
      }
      to.store(to_word, bits);
      to.store(to_sum, sum);
    };
    const Expr sums = base + (rows - s.sum_rows()) * place.step;
    if (s.integers()) b.loop("o", lanes, [&](Expr o) { to.store(sums + o, b.value(DType::I32, 0)); });
    b.loop("c", channels / s.group(), [&](Expr number) {
      const Expr c = number * s.group();
      b.loop("tap", taps, [&](Expr tap) {
        const Expr step = ((c / w.block * taps + tap) * w.block + c % w.block) / s.group();
        const Expr at = b.let("at", base + step * place.step), source = b.let("source", first + c * taps + tap);
        b.loop("o", outputs, [&](Expr o) {
          const Expr own_source = source + o * depth;
          if (s.integers()) return add_word(at + o, sums + o, own_source, c);
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
  const bool integers = s.integers() && (s.windows.dtype == DType::U8 || s.windows.dtype == DType::I8);
  const bool halves = s.windows.dtype == DType::BF16 && s.weight == DType::BF16;
  const int lanes = static_cast<int>(s.lanes);
  const DotUnit unit = integers ? DotUnit{lanes, kWordCodes, DType::U8, DType::I8, DType::I32}
                                : DotUnit{lanes, 2, DType::BF16, DType::BF16, DType::F32};
  return (integers || halves) && s.windows.block % kTermsOfStep == 0 && std::ranges::find(m.dot_units, unit) != m.dot_units.end();
}

int64_t tiles_per_task(const BlockedConv& s, const Mapping& m) { return TileShape(s, m).band; }

}  // namespace rlxc::kernel
