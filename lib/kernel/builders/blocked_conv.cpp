#include <algorithm>
#include <bit>

#include "kernel/builders/blocked.h"
#include "kernel/builders/turn.h"

namespace rlxc::kernel {
namespace {

constexpr int64_t kLeastTasks = 16;
constexpr int64_t kTermsOfStep =
    4;  // channels (of integers: words of channels), or taps of a row, per step of the innermost loop
constexpr int64_t kLineElements = 16;  // of weights in a cache line
// Sizes that costs assume where they are known in a run only.
constexpr int64_t kAssumedPixels = 56, kAssumedBand = 8;

// Vectors of results per tile, and of the last panel if they do not divide the blocks of a group.
struct PanelVectors {
  int64_t all, last;
};

// Splits `size` into nearly equal pieces of at most `most`.
int64_t piece(int64_t size, int64_t most) {
  const int64_t pieces = (size + most - 1) / most;
  return (size + pieces - 1) / pieces;
}

// The batch, or the least one if it is not known.
int64_t known_images(const BlockedWindows& w) {
  int64_t images = 1;
  constant(w.batch, &images);
  return images;
}

// Whether positions of the image are one row: a window is one element.
bool is_one_row(const BlockedWindows& w) {
  return w.taps() == 1 && w.stride == std::array<int64_t, 2>{1, 1} && (w.open || w.in == w.out) && !w.padded();
}

// Rows and columns of results as tiles divide them.
std::array<int64_t, 2> divided_results(const BlockedWindows& w) {
  return is_one_row(w) ? std::array<int64_t, 2>{1, w.out[0] * w.out[1]} : w.out;
}

// Most results of a tile, which holds its sums, a row of weights and a broadcast element in registers.
int64_t most_pixels(int64_t vectors, const Mapping& m) {
  constexpr int64_t kMostPixels = 14;
  return std::min<int64_t>((m.vector_registers - 1 - vectors) / vectors, kMostPixels);
}

// Rows and columns of a tile.
std::array<int64_t, 2> tile_of(const std::array<int64_t, 2>& out, int64_t vectors, const Mapping& m) {
  const int64_t most = most_pixels(vectors, m), columns = piece(out[1], most);
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
  const bool three = blocks >= 3 && ((blocks % 3 == 0 && blocks % 2 != 0) ||
                                     (!s.windows.open && time_of_panels(s, 3, m) * 20 < time_of_panels(s, 2, m) * 19));
  const int64_t all = three ? 3 : 2;
  return {all, blocks % all};
}

int64_t panels_of(const BlockedConv& s, const Mapping& m) { return ceil_div(s.blocks(), panel_vectors(s, m).all); }

// Channels, or elements of joined taps, per step of the innermost loop.
int64_t terms_of_step(const BlockedConv& s) {
  const BlockedWindows& w = s.windows;
  if (!w.joins_taps) return std::min(w.block, s.accumulator() == DType::I32 ? kTermsOfStep * s.group() : kTermsOfStep);
  int64_t words = kTermsOfStep;
  while (w.row_terms() / kWordCodes % words != 0) --words;
  return words * kWordCodes;
}

// Tiles of results and tasks of several tiles, of sizes that are constants.
struct TileShape {
  TileShape(const BlockedConv& s, const Mapping& m) : out(divided_results(s.windows)) {
    const BlockedWindows& w = s.windows;
    const auto tile = tile_of(out, panel_vectors(s, m).all, m);
    const int64_t panels = panels_of(s, m);
    rows = tile[0];
    columns = tile[1];
    across = (out[1] + columns - 1) / columns;
    tiles = across * ((out[0] + rows - 1) / rows);
    const int64_t bytes =
        (s.accumulator() == DType::I32 ? rlxc::bits(s.image()) / 8 : 4) * w.channels / s.groups * w.extent(0) * w.extent(1);
    const int64_t bands = std::clamp<int64_t>(
        std::max((bytes - 1) / m.blocking.conv_image_bytes + 1, kLeastTasks / (panels * s.groups * known_images(w))), 1, tiles);
    band = piece(tiles, (tiles + bands - 1) / bands);
  }

  std::array<int64_t, 2> out;  // rows and columns of results, as tiles divide them
  int64_t rows, columns;       // of a tile
  int64_t across, tiles;       // tiles of a row, of an image
  int64_t band;                // tiles per task
};

// Tiles and tasks of open sizes. A tile is a part of a row and has one of several widths. The kernel takes the width whose tiles
// need the least time for a row. The last tile of a row overlaps the one before it and skips the results that it has written.
struct OpenTiles {
  OpenTiles(Builder& b, const BlockedConv& s, Expr blocks, Expr images, const Mapping& m) {
    const BlockedWindows& w = s.windows;
    Kernel* k = b.kernel();
    const int64_t most = most_pixels(panel_vectors(s, m).all, m), groups_panels = panels_of(s, m) * s.groups;
    for (const int64_t pixels : {most, ceil_div(most, 2), ceil_div(most, 4), int64_t{1}})
      if (widths.empty() || pixels < widths.back()) widths.push_back(pixels);
    const bool one_row = is_one_row(w);
    const Expr rows = one_row ? b.i64(1) : w.out_size(k, 0);
    columns = one_row ? w.out_size(k, 0) * w.out_size(k, 1) : w.out_size(k, 1);
    width = b.i64(1);
    Expr least = columns * (1 + kTileOverhead);
    for (size_t i = widths.size() - 1; i-- > 0;) {
      const Expr cost = ceil_div(columns, widths[i]) * (widths[i] + kTileOverhead);
      const Expr better = columns >= widths[i] && cost <= least;
      width = select(better, b.i64(widths[i]), width);
      least = select(better, cost, least);
    }
    tiles = ceil_div(columns, width) * rows;
    const Expr bytes = blocks * (w.extent(k, 0) * w.extent(k, 1) * (w.block * (s.integers() ? 1 : 4)));
    const Expr parts = max((bytes - 1) / m.blocking.conv_image_bytes + 1, kLeastTasks / max(images * groups_panels, 1));
    band = max(ceil_div(tiles, max(min(parts, tiles), 1)), 1);
  }

  static constexpr int64_t kTileOverhead = 2;  // of a tile, in results
  std::vector<int64_t> widths;                 // descending
  Expr columns, width, tiles, band;            // columns: of a row
};

class BlockedTiles {
 public:
  BlockedTiles(Builder& b, const BlockedConv& s, const Index& blocks, const Index& band, const Mapping& m)
      : b_(b),
        s_(s),
        m_(m),
        w_(s.windows),
        vectors_(panel_vectors(s, m)),
        panels_(panels_of(s, m)),
        blocks_(blocks.in(b.kernel())),
        images_(s.windows.batch.in(b.kernel())),
        pitch_(w_.pitch(b.kernel())),
        plane_(w_.extent(b.kernel(), 0) * pitch_),
        positions_(w_.out_size(b.kernel(), 0) * w_.out_size(b.kernel(), 1)),
        group_(s.group()),
        fetch_terms_(terms_of_step(s)),
        terms_(m.has_many_registers() ? fetch_terms_ : group_),
        depth_(blocks_ * (w_.kernel[0] * w_.row_terms() / group_)),
        rows_(depth_ + s.sum_rows()) {
    if (w_.open) {
      open_.emplace(b, s, blocks_, images_, m);
      row_pitch_ = open_->columns, tiles_ = open_->tiles, band_ = open_->band;
    } else {
      fixed_.emplace(s, m);
      row_pitch_ = b.i64(fixed_->out[1]), tiles_ = b.i64(fixed_->tiles), band_ = band.in(b.kernel());
    }
  }

  void run() {
    weights_ = b_.input("w", s_.packed(), rows_ * (s_.groups * s_.blocks() * s_.lanes));
    image_ = b_.input("image", s_.image(), blocks_ * (images_ * (plane_ * s_.groups)));
    if (w_.zero) zero_ = b_.input(w_.zero->name, w_.zero->dtype, w_.zero->extent);
    epilogue_.emplace(b_, s_.epilogue);
    const Expr results = images_ * (positions_ * (s_.groups * s_.stored_blocks() * s_.stored_block()));
    epilogue_->add_results(s_.result, results);
    const Expr tasks = ceil_div(tiles_, band_);
    // A product takes less time than moving a byte.
    const int64_t pixels = fixed_ ? fixed_->rows * fixed_->columns : open_->widths[0];
    const int64_t work = known_band() * pixels * s_.depth() * vectors_.all * s_.lanes / 8;
    for_each(b_, m_, "work", tasks * (images_ * (s_.groups * panels_)), work, [&](Expr task) {
      const Expr panel = b_.let("panel", task % panels_), rest = b_.let("rest", task / panels_);
      const Expr image = b_.let("n", rest / tasks), group = b_.let("group", image % s_.groups);
      block0_ = b_.let("block", group * s_.blocks() + panel * vectors_.all);
      from_ = b_.let("from", block0_ * s_.lanes * rows_);
      in_ = b_.let("in", image * blocks_ * plane_);
      to_ = b_.let("to", (image * s_.stored_blocks() + panel * (vectors_.all * s_.parts())) * (positions_ * s_.stored_block()));
      const Expr first = b_.let("first", rest % tasks * band_), count = b_.let("count", min(tiles_ - first, band_));
      if (vectors_.last == 0) return panel_of(vectors_.all, first, count);
      b_.when(
          panel < panels_ - 1, [&] { panel_of(vectors_.all, first, count); }, [&] { panel_of(vectors_.last, first, count); });
    });
  }

 private:
  int64_t known_band() const { return fixed_ ? fixed_->band : kAssumedBand; }

  void panel_of(int64_t vectors, Expr first, Expr count) {
    if (open_) return panel_of_open(vectors, first, count, 0);
    const TileShape& s = *fixed_;
    b_.loop("t", count, [&](Expr t) {
      fetch_begin(vectors, t);
      const Expr tile = b_.let("tile", first + t);
      const Expr row = b_.let("row", tile / s.across * s.rows), column = b_.let("column", tile % s.across * s.columns);
      const auto columns = [&](int64_t rows) {
        either(column, s.columns, s.out[1], [&](int64_t c) { sum(vectors, row, column, rows, c); });
      };
      either(row, s.rows, s.out[0], columns);
    });
  }

  // Tiles of the widths from number `i` on.
  void panel_of_open(int64_t vectors, Expr first, Expr count, size_t i) {
    const int64_t width = open_->widths[i];
    const auto tiles = [&] {
      const Expr across = b_.let("across", ceil_div(open_->columns, width));
      b_.loop("t", count, [&](Expr t) {
        fetch_begin(vectors, t);
        const Expr tile = b_.let("tile", first + t), begin = b_.let("begin", tile % across * width);
        const Expr row = b_.let("row", tile / across), column = b_.let("column", min(begin, open_->columns - width));
        skipped_ = b_.let("skipped", begin - column);
        sum(vectors, row, column, 1, width);
      });
    };
    if (i + 1 == open_->widths.size()) return tiles();
    b_.when(open_->width == width, tiles, [&] { panel_of_open(vectors, first, count, i + 1); });
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
    if (!w_.joins_taps && w_.block % kTermsOfStep != 0) return;
    const int64_t lines = fetch_terms_ / group_ * vectors * s_.lanes / kLineElements;  // of the panel, for so many terms
    fetched_ = std::clamp<int64_t>(ceil_div(lines, known_band()), 1, 8);
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
    const Expr start = b_.let("start", in_ + row * (pitch_ * w_.stride[0]) + column * (w_.stride[1] * w_.block));
    // Adds the products of one channel of all pixels, or of group_ channels on a dot unit.
    const auto step = [&](Expr image, Expr weights, int64_t c) {
      std::vector<Expr> w;
      for (int64_t v = 0; v < vectors; ++v)
        w.push_back(b_.let(
            "w", factor(weights_.load(weights + (c / group_ * width + v * s_.lanes), static_cast<int>(s_.lanes)), s_.weight)));
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t q = 0; q < columns; ++q) {
          const Expr at = pitch_ * (r * w_.stride[0]) + (q * w_.stride[1] * w_.block + c);
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
        const Expr line = b_.let("line", start + cb * plane_ + ky * (pitch_ * w_.dilation[0]));
        if (w_.taps() == 1 && rows == 1) fetch_pixels(line, columns);
        const Expr taps = b_.let("taps", (cb * w_.kernel[0] + ky) * w_.row_terms());
        const auto tap = [&](Expr kx) {
          b_.loop("u", (w_.joins_taps ? w_.row_terms() : w_.block) / terms_, [&](Expr u) {
            const Expr number = b_.let("number", (taps + kx * w_.block) / terms_ + u);
            const Expr image = b_.let("at", line + kx * (w_.dilation[1] * w_.block) + u * terms_);
            const Expr weights = b_.let("weights", from_ + number * (terms_ / group_ * width));
            fetch(number);
            for (int64_t c = 0; c < terms_; c += group_) step(image, weights, c);
          });
        };
        if (w_.joins_taps) return tap(b_.i64(0));
        // Taps of a row-major image share elements, which compilers keep in registers if the taps are one block of code.
        if (w_.block > 1 || vectors > 1 || w_.kernel[1] > kTermsOfStep) return b_.loop("kx", w_.kernel[1], tap);
        for (int64_t kx = 0; kx < w_.kernel[1]; ++kx) tap(b_.i64(kx));
      });
    });
    write(sums, vectors, row, column, rows, columns);
  }

  // A vector of words as the dot unit reads it.
  Expr factor(Expr v, DType t) const { return s_.dots ? bitcast_to(v, Type(t, static_cast<int>(group_) * v.lanes())) : v; }

  void write(const std::vector<Buf>& sums, int64_t vectors, Expr row, Expr column, int64_t rows, int64_t columns) {
    if (!open_) return write(sums, vectors, row, column, rows, columns, {});
    b_.when(
        skipped_ == 0, [&] { write(sums, vectors, row, column, rows, columns, {}); },
        [&] { write(sums, vectors, row, column, rows, columns, skipped_); });
  }

  // `skipped`: results at the beginning of the tile, of one row, that are not written; null if all are.
  void write(const std::vector<Buf>& sums, int64_t vectors, Expr row, Expr column, int64_t rows, int64_t columns, Expr skipped) {
    const int64_t block = s_.stored_block(), parts = s_.parts();
    Buf all;  // sums, of which parts are read
    if (parts > 1 || skipped.kernel) {
      all = b_.registers("sums", s_.accumulator(), static_cast<int64_t>(sums.size()) * s_.lanes);
      for (size_t i = 0; i < sums.size(); ++i) all.store(b_.i64(static_cast<int64_t>(i) * s_.lanes), sums[i].get());
    }
    for (int64_t v = 0; v < vectors; ++v)
      for (int64_t part = 0; part < parts; ++part) {
        const auto stored = [&](Expr number) {
          return all.load(number * (vectors * s_.lanes) + (v * s_.lanes + part * block), static_cast<int>(block));
        };
        const auto store_vector = [&] {
          const Expr at = b_.let("at", to_ + (row * row_pitch_ + column + positions_ * (v * parts + part)) * block);
          epilogue_->begin((block0_ + v) * s_.lanes + part * block, static_cast<int>(block));
          if (skipped.kernel)
            return b_.loop("q", columns - skipped, [&](Expr q) {
              const Expr number = b_.let("number", q + skipped);
              epilogue_->store(b_.let("to", at + number * block), stored(number));
            });
          for (int64_t r = 0; r < rows; ++r)
            for (int64_t q = 0; q < columns; ++q) {
              const int64_t number = r * columns + q;
              const Expr sum = parts > 1 ? stored(b_.i64(number)) : sums[static_cast<size_t>(number * vectors + v)].get();
              epilogue_->store(at + (row_pitch_ * r + q) * block, sum);
            }
        };
        if (s_.stored_blocks() % parts == 0) store_vector();
        else b_.when((block0_ + v) * parts + part < s_.stored_blocks(), store_vector);
      }
  }

  Builder& b_;
  const BlockedConv& s_;
  const Mapping& m_;
  const BlockedWindows& w_;
  const PanelVectors vectors_;
  const int64_t panels_;  // of a group
  const Expr blocks_, images_;
  const Expr pitch_, plane_;  // of a row and of a block of the image
  const Expr positions_;      // of a result
  std::optional<TileShape> fixed_;
  std::optional<OpenTiles> open_;
  Expr row_pitch_, tiles_, band_;              // of the result as tiles divide it; tiles of an image and of a task
  Expr skipped_;                               // results of an open tile that the one before it has written
  const int64_t group_, fetch_terms_, terms_;  // channels of a product, of a fetch, and of a step of the innermost loop
  const Expr depth_, rows_;                    // products of a sum; rows of a panel
  int64_t fetched_ = 0;                        // lines per fetch
  Buf weights_, image_, zero_;
  std::optional<BlockedEpilogue> epilogue_;
  Expr block0_, from_, in_, to_, next_;
};

}  // namespace

bool BlockedWindows::reaches_beyond(size_t axis) const {
  return pad[axis] > 0 || (open ? pad_end[axis] > 0 || overhangs : span(axis) > in[axis]);
}

int64_t BlockedWindows::row_terms() const {
  const int64_t elements = kernel[1] * block;
  return joins_taps ? (elements + kWordCodes - 1) / kWordCodes * kWordCodes : elements;
}

Expr BlockedWindows::extent(Kernel* k, size_t axis) const {
  if (!padded()) return in_size(k, axis);
  return (out_size(k, axis) - 1) * stride[axis] + ((kernel[axis] - 1) * dilation[axis] + 1);
}

BlockedEpilogue::BlockedEpilogue(Builder& b, const Epilogue& e) : b_(b), e_(e), inputs_(b, e.inputs) {}

void BlockedEpilogue::begin(Expr channel, int lanes) {
  own_.assign(inputs_.size(), Expr());
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const Dims& strides = inputs_.operand(i).strides;
    if (!is_constant(strides[1], 0)) continue;
    const bool one = is_constant(strides[0], 0);
    own_[i] = broadcast(b_.let("own", one ? inputs_.load(i, b_.i64(0)) : inputs_.load(i, channel, lanes)), lanes);
  }
}

std::vector<Expr> BlockedEpilogue::values(std::span<const Expr> roots, Expr at) const {
  std::vector<Expr> all = own_;
  for (size_t i = 0; i < all.size(); ++i)
    if (!all[i].kernel) all[i] = inputs_.load(i, at, roots[0].lanes());
  return fused_values(e_.body, roots, all);
}

void BlockedEpilogue::add_results(DType type, Expr elements) {
  results_.push_back(b_.output("y", type, elements));
  for (const Operand& o : e_.also) results_.push_back(b_.output(o.name, o.dtype, elements));
}

void BlockedEpilogue::store(Expr at, Expr sum) const {
  std::vector<Expr> all = values({&sum, 1}, at);
  for (Expr& v : all)
    if (results_.size() > 1) v = b_.let("value", v);
  for (size_t i = 0; i < results_.size(); ++i) results_[i].store(at, cast_to(all[i], results_[i].type().dtype));
}

void build_pad_blocked(Builder& b, const BlockedConv& s, Index blocks, const Mapping& m) {
  const BlockedWindows& w = s.windows;
  const DType type = s.image();
  const Expr all = blocks.in(b.kernel());
  Kernel* k = b.kernel();
  const Expr rows = w.in_size(k, 0), from_pitch = w.in_size(k, 1) * (w.planes ? 1 : w.block);
  const Expr extent = w.extent(k, 0), to_pitch = w.pitch(k);
  const Expr left = min(b.i64(w.pad[1] * w.block), to_pitch);
  const Expr copied = min(max(w.extent(k, 1) - w.pad[1], 0), w.in_size(k, 1));
  Buf x = b.input("x", w.prologue.body ? DType::F32 : w.dtype,
                  w.planes ? w.batch.in(k) * (rows * from_pitch * w.planes) : all * (rows * from_pitch)),
      of_zero;
  if (w.zero) of_zero = b.input(w.zero->name, w.zero->dtype, w.zero->extent);
  const FusedInputs inputs(b, w.prologue.inputs);
  Buf y = b.output("image", type, all * (extent * to_pitch));
  const auto as_read = [&](Expr v) {
    return w.dtype == DType::I8 ? bitcast_to(v, Type(type, v.lanes())) ^ kSignFlip : cast_to(v, type);
  };
  // Calls body(first, lanes) for vectors, then for the remaining elements. `unit`: a divisor of a count that is no constant.
  const auto each = [&](Expr count, int64_t most, int64_t unit, const std::function<void(Expr, int)>& body) {
    int64_t known = unit, lanes = most;
    if (constant(count, &known) || unit > 1)
      while (lanes > known) lanes /= 2;
    if (lanes == 0) return;
    const int width = static_cast<int>(lanes);
    b.loop("v", count / width, [&](Expr v) { body(v * width, width); });
    if (known % lanes) b.loop("e", count % width, [&](Expr e) { body(e + count / width * width, 1); });
  };
  const int64_t widest = m.vector_lanes(s.integers() ? 1 : 4);
  for_each(b, m, "row", all * extent, 8 * (w.open ? kAssumedPixels : w.extent(1)) * w.block, [&](Expr row) {
    const Expr line = b.let("line", row % extent - w.pad[0]), to = b.let("to", row * to_pitch);
    const Expr outside = as_read(of_zero.builder() ? b.let("outside", of_zero[0]) : b.value(w.dtype, 0));
    const auto fill = [&](Expr at, Expr count) {
      each(count, widest, w.joins_taps ? 1 : w.block, [&](Expr i, int lanes) { y.store(at + i, broadcast(outside, lanes)); });
    };
    const auto code_at = [&](Expr at, int lanes) {
      const Expr v = x.load(at, lanes);
      return as_read(inputs.values(w.prologue.body, {&v, 1}, {b.i64(0)})[0]);
    };
    const auto copy = [&] {
      const Expr from = b.let("from", (row / extent * rows + line) * from_pitch);
      each(copied * w.block, w.prologue.body ? m.vector_lanes(4) : widest, w.block,
           [&](Expr i, int lanes) { y.store(to + left + i, code_at(from + i, lanes)); });
    };
    // Words of an element of each of four planes, from `first` on. Planes beyond the last are not multiplied: their weights are
    // zero, or the next pixel replaces them.
    const Expr plane = rows * from_pitch;
    const auto word_of_planes = [&](Expr from, Expr first, int lanes) {
      Expr word = broadcast(b.value(DType::I32, 0), lanes);
      for (int64_t c = 0; c < std::min<int64_t>(kWordCodes, w.planes); ++c) {
        const Expr source = b.let("source", min(first + c, b.i64(w.planes - 1)) * plane);
        word = word | cast_to(code_at(from + source, lanes), DType::I32) << 8 * c;
      }
      return word;
    };
    const auto interleave = [&] {
      const int64_t groups = (w.planes + w.block - 1) / w.block;
      const Expr block = b.let("block", row / extent), first = b.let("first", block % groups * w.block);
      const Expr from = b.let("from", (block / groups * w.planes * rows + line) * from_pitch);
      const auto vector = [&](Expr i, int lanes) {
        std::vector<Expr> words;
        for (int64_t g = 0; g < w.block; g += kWordCodes) words.push_back(word_of_planes(from + i, first + g, lanes));
        if (lanes > 1) words = interleaved(b, words);
        for (const Expr& word : words) {
          const Expr at = to + left + i * w.block + static_cast<int64_t>(&word - words.data()) * lanes * kWordCodes;
          y.store(at, bitcast_to(word, Type(type, kWordCodes * lanes)));
        }
      };
      int64_t count = 0;
      int lanes = m.vector_lanes(4);
      if (!constant(copied, &count)) return each(copied, lanes, 1, vector);
      while (lanes > count) lanes /= 2;
      if (lanes > 0)
        b.loop("v", ceil_div(count, lanes), [&](Expr v) { vector(b.let("i", min(v * lanes, count - lanes)), lanes); });
    };
    // Pixels are no whole words. A word replaces what the one before it has written too much.
    const auto join = [&] {
      const int64_t words = (w.planes + kWordCodes - 1) / kWordCodes;
      const Expr from = b.let("from", (row / extent * w.planes * rows + line) * from_pitch);
      each(copied, m.vector_lanes(4), 1, [&](Expr i, int lanes) {
        Buf all = b.registers("words", DType::I32, words * lanes);
        for (int64_t g = 0; g < words; ++g) all.store(b.i64(g * lanes), word_of_planes(from + i, b.i64(g * kWordCodes), lanes));
        b.loop("l", lanes, [&](Expr l) {
          for (int64_t g = 0; g < words; ++g) {
            const Expr at = to + left + (i + l) * w.planes + g * kWordCodes;
            y.store(at, bitcast_to(all.load(l + g * lanes), Type(type, kWordCodes)));
          }
        });
      });
    };
    b.when(
        line >= 0 && line < rows,
        [&] {
          fill(to, left);
          w.joins_taps ? join() : w.planes ? interleave() : copy();
          fill(to + left + copied * w.block, to_pitch - left - copied * w.block);
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
  const Expr rows = blocks.in(b.kernel()) * (w.kernel[0] * w.row_terms() / s.group()) + s.sum_rows();
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
    // `code`: number q of a word.
    const auto add_word = [&](Expr to_word, Expr to_sum, const std::function<Expr(int64_t q)>& code_of) {
      Expr bits = b.value(DType::I32, 0), sum = to.load(to_sum);
      for (int64_t q = 0; q < s.group(); ++q) {
        const Expr code = b.let("code", code_of(q));
        bits = bits | (cast_to(code, DType::I32) & 255) << 8 * q;
        sum = sum + cast_to(code, DType::I32);
      }
      to.store(to_word, bits);
      to.store(to_sum, sum);
    };
    const Expr sums = base + (rows - s.sum_rows()) * place.step;
    const auto no_outputs = [&](Expr at) {
      b.loop("o", lanes - outputs, [&](Expr o) { to.store(at + outputs + o, cast_to(b.f32(0), s.packed())); });
    };
    if (s.integers()) b.loop("o", lanes, [&](Expr o) { to.store(sums + o, b.value(DType::I32, 0)); });
    if (w.joins_taps) {
      const int64_t words = w.row_terms() / kWordCodes, elements = w.kernel[1] * w.planes;
      return b.loop("word", w.kernel[0] * words, [&](Expr word_number) {
        const Expr at = b.let("at", base + word_number * place.step), of_row = b.let("of_row", word_number % words * kWordCodes);
        const Expr source = b.let("source", first + word_number / words * w.kernel[1]);
        b.loop("o", outputs, [&](Expr o) {
          add_word(at + o, sums + o, [&](int64_t q) {
            const Expr e = of_row + q, from_code = source + o * depth + e % w.planes * taps + e / w.planes;
            return from.load_if(e < elements, from_code, b.value(DType::I8, 0));
          });
        });
        no_outputs(at);
      });
    }
    b.loop("c", channels / s.group(), [&](Expr number) {
      const Expr c = number * s.group();
      b.loop("tap", taps, [&](Expr tap) {
        const Expr step = ((c / w.block * taps + tap) * w.block + c % w.block) / s.group();
        const Expr at = b.let("at", base + step * place.step), source = b.let("source", first + c * taps + tap);
        b.loop("o", outputs, [&](Expr o) {
          const Expr own_source = source + o * depth;
          if (s.integers())
            return add_word(at + o, sums + o, [&](int64_t q) {
              const Expr from_code = own_source + q * taps;
              return w.planes ? from.load_if(c + q < own_channels, from_code, b.value(DType::I8, 0)) : from[from_code];
            });
          to.store(at + o, s.dots ? word(own_source, 0) | word(own_source, 1) : cast_to(from[own_source], DType::F32));
        });
        no_outputs(at);
      });
    });
  });
}

void build_conv_blocked(Builder& b, const BlockedConv& s, Index blocks, Index band, const Mapping& m) {
  BlockedTiles(b, s, blocks, band, m).run();
}

bool conv_fits_blocked_dots(const BlockedConv& s, const Mapping& m) {
  const bool integers = s.integers() && is_int8(s.windows.dtype);
  const bool halves = s.windows.dtype == DType::BF16 && s.weight == DType::BF16;
  const int lanes = static_cast<int>(s.lanes);
  const DotUnit unit = integers ? DotUnit{lanes, kWordCodes, DType::U8, DType::I8, DType::I32}
                                : DotUnit{lanes, 2, DType::BF16, DType::BF16, DType::F32};
  return (integers || halves) && (s.windows.joins_taps || s.windows.block % kTermsOfStep == 0) &&
         std::ranges::find(m.dot_units, unit) != m.dot_units.end();
}

bool blocks_of_codes_pay(const BlockedConv& s, const Mapping& m) {
  constexpr int64_t kFill = 2, kTurn = 4;  // cycles to copy a vector of an operand, and to transpose one of the result
  const BlockedWindows& w = s.windows;
  if (!m.has_many_registers() || !s.dots || w.joins_taps || w.taps() == 1 || s.groups > 1 || s.group_outputs % s.lanes != 0)
    return false;
  const int64_t positions = w.out[0] * w.out[1], vectors = (positions + s.lanes - 1) / s.lanes;
  const int64_t words = w.channels / kWordCodes * w.taps(), products = words * s.group_outputs;
  const int64_t of_positions = vectors * products / 2 + kFill * vectors * words;
  const int64_t of_blocks = positions * products / (2 * s.lanes) + kTurn * positions * s.group_outputs / s.lanes;
  return of_blocks * 100 < of_positions * 97;
}

bool joined_taps_pay(const BlockedWindows& w) {
  const auto words = [](int64_t codes) { return (codes + kWordCodes - 1) / kWordCodes; };
  return w.planes > 0 && w.dilation[1] == 1 && words(w.kernel[1] * w.planes) < w.kernel[1] * words(w.planes);
}

int64_t tiles_per_task(const BlockedConv& s, const Mapping& m) { return TileShape(s, m).band; }

}  // namespace rlxc::kernel
