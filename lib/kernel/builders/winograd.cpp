#include "kernel/builders/winograd.h"

#include <algorithm>
#include <span>

namespace rlxc::kernel {
namespace {

constexpr int64_t kBandBytes = 2 << 20;  // points of a band
// Most bytes of transformed weights of integers, which take eight times the memory.
constexpr int64_t kMostWeightBytes = 8 << 20;
// The cost model: bytes per cycle that a core reads of weights, and that it moves between tiles and points of floats or integers;
// and the part of the time of a plain sum that a tile has to stay below.
constexpr double kWeightBytes = 10, kPointBytes = 16, kIntegerPointBytes = 24, kWorthwhile = 0.85;

using Exprs = std::vector<Expr>;

// The points are 0, infinity and pairs a, -a. A weight at a finite point is divided by the product of the distances to the other
// finite points. Integer weights stay whole: they are multiplied by kCommon, a multiple of these products. 16 bits cannot hold
// kCommon times a weight at infinity, so kRest of it multiplies the results instead.
class Points {
 public:
  Points(Builder& b, const WinogradConv& s) : b_(b), tile_(s.tile), whole_(s.integers()) {
    static constexpr double kOne[] = {1}, kTwo[] = {0.75, 1.5}, kWhole[] = {1, 2};
    pairs_ = tile_ == 2 ? std::span<const double>(kOne) : whole_ ? kWhole : kTwo;
    for (double a : pairs_) of_zero_ *= -a * a, squares_ += a * a;
    for (double a : pairs_) {
      double product = 2 * a * a;
      for (double other : pairs_)
        if (other != a) product *= a * a - other * other;
      of_pair_.push_back(product);
    }
  }

  // Transforms an axis of the image: the values at a point are the coefficients of the product over all other finite points p of
  // x - p; at infinity, over all.
  Exprs of_image(const Exprs& d) const {
    const auto all = [&](size_t i) {  // x^2 - squares, or x^4 - squares * x^2 + of_zero
      return tile_ == 2 ? weighted({{d[i + 2], 1}, {d[i], -squares_}})
                        : weighted({{d[i + 4], 1}, {d[i + 2], -squares_}, {d[i], of_zero_}});
    };
    Exprs z = {all(0)};
    for (double a : pairs_) {
      const double other = squares_ - a * a;
      if (tile_ == 2) push_pair(d[2], d[1], &z);
      else push_pair(weighted({{d[4], 1}, {d[2], -other}}), weighted({{d[3], a}, {d[1], -a * other}}), &z);
    }
    z.push_back(all(1));
    return z;
  }

  // Transforms an axis of a weight: its polynomial at each point.
  Exprs of_weight(const Exprs& g) const {
    const double common = whole_ ? kCommon : 1;
    Exprs z = {weighted({{g[0], common / of_zero_}})};
    for (size_t p = 0; p < pairs_.size(); ++p) {
      const double a = pairs_[p], scale = common / of_pair_[p];
      push_pair(weighted({{g[0], scale}, {g[2], scale * a * a}}), weighted({{g[1], scale * a}}), &z);
    }
    z.push_back(weighted({{g[2], whole_ ? kCommon / kRest : 1}}));
    return z;
  }

  // Transforms an axis of points to results.
  Exprs results(const Exprs& z) const {
    Exprs sums, differences, y;
    for (size_t p = 0; p < pairs_.size(); ++p) {
      sums.push_back(b_.let("s", z[2 * p + 1] + z[2 * p + 2]));
      differences.push_back(b_.let("t", z[2 * p + 1] - z[2 * p + 2]));
    }
    std::vector<double> powers(pairs_.size(), 1);
    for (int64_t q = 0; q < tile_; ++q) {
      std::vector<std::pair<Expr, double>> terms;
      if (q == 0) terms.emplace_back(z.front(), 1);
      if (q == tile_ - 1) terms.emplace_back(z.back(), whole_ ? kRest : 1);
      for (size_t p = 0; p < pairs_.size(); ++p) {
        terms.emplace_back(q % 2 == 0 ? sums[p] : differences[p], powers[p]);
        powers[p] *= pairs_[p];
      }
      y.push_back(weighted(terms));
    }
    return y;
  }

  // The sum of which an integer result of both axes is a multiple: kCommon^2 = 9 * 2^6.
  Expr exact_sum(Expr result) const {
    constexpr int32_t kInverse = 0x38e38e39;  // of 9, modulo 2^32
    return result * kInverse >> 6;
  }

 private:
  static constexpr double kCommon = 24, kRest = 3;

  // The sum of terms times factors; factors of 1 take no multiplication.
  Expr weighted(const std::vector<std::pair<Expr, double>>& terms) const {
    Expr sum;
    for (const auto& [x, factor] : terms) {
      if (factor == 0) continue;
      const Expr scale = broadcast(constant(b_.kernel(), x.dtype(), factor), x.lanes());
      if (!sum.kernel) sum = factor == 1 ? x : x * scale;
      else if (whole_) sum = factor == -1 ? sum - x : sum + (factor == 1 ? x : x * scale);
      else sum = factor == 1 ? sum + x : fma(x, scale, sum);
    }
    return b_.let("z", sum);
  }

  // Appends even + odd and even - odd, the values at the points a and -a.
  void push_pair(Expr even, Expr odd, Exprs* z) const {
    z->push_back(b_.let("z", even + odd));
    z->push_back(b_.let("z", even - odd));
  }

  Builder& b_;
  int64_t tile_;
  bool whole_;
  std::span<const double> pairs_;
  double of_zero_ = 1, squares_ = 0;  // the product of the distances from 0, and the sum of all a^2
  std::vector<double> of_pair_;       // products of the distances from a
};

// Applies a transform of one axis to both axes of a square [row][column], columns first. Results: [row][column].
template <class Transform>
std::vector<Exprs> both_axes(const std::vector<Exprs>& columns, const Transform& transform) {
  std::vector<Exprs> middle, out;
  for (const Exprs& column : columns) middle.push_back(transform(column));
  for (size_t row = 0; row < middle[0].size(); ++row) {
    Exprs line;
    for (const Exprs& m : middle) line.push_back(m[row]);
    out.push_back(transform(line));
  }
  return out;
}

// The least number of equal parts of the channels, in whole blocks, whose sums of integers are exact; 0 if there is none.
int64_t exact_parts(const BlockedConv& c) {
  constexpr int64_t kLargestProduct = 1 << 14, kMostExact = 1 << 25;  // of codes less 128; of sums
  const BlockedWindows& w = c.windows;
  if (!c.integers()) return 1;
  const int64_t blocks = w.channels / w.block;
  for (int64_t parts = 1; parts <= blocks; ++parts) {
    const int64_t channels = std::min(blocks / parts * w.block, w.planes ? w.planes : w.channels);
    if (blocks % parts == 0 && 9 * channels * kLargestProduct < kMostExact) return parts;
  }
  return 0;
}

bool fits(const BlockedConv& c) {
  const BlockedWindows& w = c.windows;
  const std::array<int64_t, 2> three{3, 3}, one{1, 1};
  if (w.kernel != three || w.stride != one || w.dilation != one || c.groups != 1 || c.group_outputs % c.lanes != 0) return false;
  if (c.integers()) {
    const WinogradConv s(c, 4);
    return c.dots && !w.joins_taps && s.parts > 0 && s.weight_elements() * rlxc::bits(s.packed()) / 8 <= kMostWeightBytes;
  }
  return w.dtype == DType::F32 && c.weight == DType::F32 && !c.dots && c.result == DType::F32 && w.block > 1;
}

// Instructions of a vector of products.
double instructions(const BlockedConv& c, bool plain, const Mapping& m) {
  constexpr double kExactInstructions = 8;  // of a dot product of any bytes where one instruction saturates
  if (!c.integers()) return 1;
  if (!plain) return m.pair_dot_instructions / 2.;
  return (m.dot_instructions == 1 ? 1 : kExactInstructions) / static_cast<double>(kWordCodes);
}

// Cycles of a core: products at two vectors per cycle or weights as they come, whichever takes longer, and the transforms.
double cycles(const BlockedConv& c, int64_t tile, const Mapping& m) {
  const BlockedWindows& w = c.windows;
  const auto terms = static_cast<double>(w.channels * c.group_outputs);
  double products = static_cast<double>(9 * constant_value(w.batch) * w.out[0] * w.out[1]), weights = c.integers() ? 9 : 36;
  double moved = 0;
  if (tile > 0) {
    const WinogradConv s(c, tile);
    products = static_cast<double>(s.points() * s.rows() * s.tiles[1]);
    weights = static_cast<double>(s.points() * rlxc::bits(s.point()) / 8);
    moved =
        products * static_cast<double>(w.channels * rlxc::bits(s.point()) + s.parts * c.group_outputs * rlxc::bits(s.sum())) / 4;
  }
  const double time = products * terms * instructions(c, tile == 0, m) / (2. * m.vector_lanes(4));
  return std::max(time, weights * terms / kWeightBytes) + moved / (c.integers() ? kIntegerPointBytes : kPointBytes);
}

}  // namespace

WinogradConv::WinogradConv(const BlockedConv& c, int64_t m)
    : tile(m),
      lanes(c.lanes),
      results(c.blocks() * c.lanes),
      out(c.windows.out),
      parts(exact_parts(c)),
      weight(c.weight),
      result(c.result),
      padded(c.windows),
      epilogue(c.epilogue) {
  for (size_t d = 0; d < 2; ++d) {
    tiles[d] = (out[d] + tile - 1) / tile;
    padded.out[d] = tiles[d] * tile;
  }
  const int64_t row_bytes =
      points() * tiles[1] * (padded.channels * rlxc::bits(point()) + parts * results * rlxc::bits(sum())) / 8;
  const int64_t most = std::clamp<int64_t>(kBandBytes / row_bytes, 1, rows());
  const int64_t launches = (rows() + most - 1) / most;
  band = (rows() + launches - 1) / launches;
}

BlockedConv WinogradConv::products() const {
  BlockedConv c;
  c.windows.dtype = c.weight = point();
  c.windows.channels = points() * padded.channels;
  c.windows.block = padded.block;
  c.windows.in = {1, pitch()};
  c.windows.out = {1, band_tiles()};
  c.windows.kernel = {1, 1};
  c.groups = points() * parts;
  c.group_outputs = results;
  c.lanes = lanes;
  c.result = sum();
  c.dots = integers();
  return c;
}

BlockedConv WinogradConv::image() const {
  BlockedConv c;
  c.windows = padded;
  c.weight = weight;
  c.dots = integers();
  return c;
}

int64_t winograd_tile(const BlockedConv& c, const Mapping& m, int64_t largest) {
  if (m.workgroups || !fits(c) || (c.integers() && m.pair_dot_instructions == 0)) return 0;
  int64_t best = 0;
  double least = kWorthwhile * cycles(c, 0, m);
  for (const int64_t tile : {int64_t{4}, int64_t{2}}) {
    if (tile > largest || (tile == 2 && c.integers())) continue;  // tiles of 2 save less than integer pairs cost
    const double own = cycles(c, tile, m);
    if (own < least) least = own, best = tile;
  }
  return best;
}

void build_winograd_weights(Builder& b, const WinogradConv& s, Index blocks, const Mapping& m) {
  const Expr depth = blocks.in(b.kernel()) * s.padded.block;  // of the image, whose last channels the weights may lack
  const Expr channels = s.padded.planes ? b.i64(s.padded.planes) : depth, rows = depth / (s.group() * s.parts);
  Buf from = b.input("w", s.weight, channels * (s.results * 9));
  const Expr panels = rows * (s.results * s.points() * s.parts);
  Buf to = b.output("out", s.packed(), s.integers() ? panels + s.results : panels);
  const Points points(b, s);
  const int lanes = static_cast<int>(s.lanes);
  for_each(b, m, "block", s.results / s.lanes, 1 << 16, [&](Expr block) {
    const PanelPlace at = panel_place(b, s.products(), block, rows, m);
    const Expr filters = b.let("filters", (block * s.lanes + ramp(b.i64(0), 1, lanes)) * (channels * 9));
    Buf sum = b.variable("sum", broadcast(b.value(s.packed(), 0), lanes));
    // The points of a channel, of which integers beyond the last channel are zero.
    const auto transformed = [&](Expr c) {
      std::vector<Exprs> columns(3);
      const bool some_lack = s.integers() && s.padded.planes % s.padded.block != 0;
      const Expr own = b.let("own", some_lack ? min(c, channels - 1) : c);
      for (int64_t x = 0; x < 3; ++x)
        for (int64_t y = 0; y < 3; ++y) {
          Expr g = from.gather(filters + (own * 9 + (3 * y + x)));
          if (s.integers()) g = cast_to(g, DType::I32);
          if (some_lack) g = g & select(c < channels, b.value(DType::I32, -1), b.value(DType::I32, 0));
          columns[static_cast<size_t>(x)].push_back(b.let("g", g));
          if (s.integers()) sum.set(sum.get() + columns[static_cast<size_t>(x)].back());
        }
      return both_axes(columns, [&](const Exprs& g) { return points.of_weight(g); });
    };
    b.loop("row", rows * s.parts, [&](Expr row) {
      const Expr place = b.let("at", at.first + row % rows * at.step), part = b.let("part", row / rows);
      auto u = transformed(row * s.group());
      const auto beside = s.integers() ? transformed(row * s.group() + 1) : u;
      for (size_t i = 0; i < u.size(); ++i)
        for (size_t j = 0; j < u.size(); ++j) {
          if (s.integers()) u[i][j] = (u[i][j] & 0xffff) | beside[i][j] << 16;
          const auto point = static_cast<int64_t>(i * u.size() + j);
          to.store(place + (part + point * s.parts) * (rows * s.results), u[i][j]);
        }
    });
    if (s.integers()) to.store(panels + block * s.lanes, sum.get());
  });
}

void build_winograd_tiles(Builder& b, const WinogradConv& s, Index first, Index blocks, const Mapping& m) {
  const BlockedWindows& w = s.padded;
  const Expr count = blocks.in(b.kernel()), begin = first.in(b.kernel());
  const int64_t pitch = w.extent(1) * w.block, plane = w.extent(0) * pitch, own = s.pitch() * w.block;
  Buf image = b.input("image", s.integers() ? DType::U8 : DType::F32, count * (s.images() * plane));
  Buf to = b.output("points", s.point(), count * (s.points() * own));
  const Points points(b, s);
  for_each(b, m, "work", count * s.band, 8 * s.points() * s.tiles[1] * w.block, [&](Expr work) {
    const Expr block = b.let("block", work / s.band), line = b.let("line", work % s.band);
    const Expr row = b.let("row", min(begin + line, s.rows() - 1));  // the last band may be smaller
    const Expr base = b.let("base", (row / s.tiles[0] * count + block) * plane + row % s.tiles[0] * (s.tile * pitch));
    const Expr place = b.let("place", block * own + line * (s.tiles[1] * w.block)), step = b.let("step", count * own);
    b.loop("t", s.tiles[1], [&](Expr t) {
      const Expr from = b.let("from", base + t * (s.tile * w.block)), at = b.let("at", place + t * w.block);
      std::vector<Exprs> columns(static_cast<size_t>(s.side()));
      for (int64_t x = 0; x < s.side(); ++x)
        for (int64_t y = 0; y < s.side(); ++y) {
          const Expr d = image.load(from + (y * pitch + x * w.block), static_cast<int>(w.block));
          columns[static_cast<size_t>(x)].push_back(b.let("d", s.integers() ? cast_to(d, DType::I16) - kSignFlip : d));
        }
      const auto v = both_axes(columns, [&](const Exprs& d) { return points.of_image(d); });
      for (int64_t i = 0; i < s.points(); ++i)
        to.store(at + step * i, v[static_cast<size_t>(i / s.side())][static_cast<size_t>(i % s.side())]);
    });
  });
}

void build_winograd_results(Builder& b, const WinogradConv& s, Index first, Index blocks, const Mapping& m) {
  const BlockedWindows& w = s.padded;
  const Expr count = blocks.in(b.kernel()), begin = first.in(b.kernel());
  const int64_t own = s.band_tiles() * s.lanes, positions = s.out[0] * s.out[1];
  const Expr elements = count * (s.images() * positions * s.lanes);
  Buf sums = b.input("sums", s.sum(), count * (s.points() * s.parts * own)), weights, zero;
  const int64_t words = s.weight_elements();
  if (s.integers()) weights = b.input("w", s.packed(), words);
  if (w.zero) zero = b.input(w.zero->name, w.zero->dtype, w.zero->extent);
  BlockedEpilogue epilogue(b, s.epilogue);
  epilogue.add_results(s.result, elements);
  const Points points(b, s);
  const int lanes = static_cast<int>(s.lanes);
  for_each(b, m, "work", count * s.band, 8 * s.points() * s.tiles[1] * s.lanes, [&](Expr work) {
    const Expr block = b.let("block", work / s.band), line = b.let("line", work % s.band), row = b.let("row", begin + line);
    const Expr top = b.let("top", row % s.tiles[0] * s.tile), step = b.let("step", count * own);
    const Expr image = b.let("image", ((row / s.tiles[0] * count + block) * positions + top * s.out[1]) * s.lanes);
    const Expr place = b.let("place", block * own + line * (s.tiles[1] * s.lanes));
    // Codes of the image are less than those of the model, by 128 if they are unsigned.
    Expr of_zero;
    if (s.integers()) {
      const Expr offset = b.value(DType::I32, w.dtype == DType::I8 ? 0 : kSignFlip);
      const Expr added = w.zero ? offset - cast_to(zero[0], DType::I32) : offset;
      of_zero = b.let("of_zero", weights.load(words - s.results + block * s.lanes, lanes) * added);
    }
    const auto tile = [&](Expr t, int64_t columns) {
      const Expr at = b.let("at", place + t * s.lanes), to = b.let("to", image + t * (s.tile * s.lanes));
      std::vector<Exprs> z;
      for (int64_t part = 0; part < s.parts; ++part) {
        std::vector<Exprs> square(static_cast<size_t>(s.side()));
        for (int64_t x = 0; x < s.side(); ++x)
          for (int64_t r = 0; r < s.side(); ++r) {
            const Expr point = at + step * ((r * s.side() + x) * s.parts + part);
            square[static_cast<size_t>(x)].push_back(b.let("m", sums.load(point, lanes)));
          }
        auto own = both_axes(square, [&](const Exprs& v) { return points.results(v); });
        for (size_t r = 0; s.integers() && r < own.size(); ++r)
          for (size_t x = 0; x < own[r].size(); ++x)
            own[r][x] = b.let("y", (part > 0 ? z[r][x] : of_zero) + points.exact_sum(own[r][x]));
        z = std::move(own);
      }
      const auto write = [&](int64_t r) {
        for (int64_t x = 0; x < columns; ++x) {
          const Expr pixel = to + (r * s.out[1] + x) * s.lanes;
          epilogue.store(pixel, z[static_cast<size_t>(r)][static_cast<size_t>(x)]);
        }
      };
      for (int64_t r = 0; r < s.tile; ++r)
        if (s.out[0] % s.tile <= r && s.out[0] % s.tile > 0) b.when(top + r < s.out[0], [&] { write(r); });
        else write(r);
    };
    b.when(row < s.rows(), [&] {
      epilogue.begin(block * s.lanes, lanes);
      b.loop("t", s.out[1] / s.tile, [&](Expr t) { tile(t, s.tile); });
      if (s.out[1] % s.tile > 0) tile(b.i64(s.out[1] / s.tile), s.out[1] % s.tile);
    });
  });
}

}  // namespace rlxc::kernel
