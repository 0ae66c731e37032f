#include "kernel/builders/winograd.h"

#include <algorithm>
#include <span>

namespace rlxc::kernel {
namespace {

constexpr int64_t kBandBytes = 2 << 20;  // points of a band
// The cost model: bytes per cycle that a core reads of weights, and that it moves between tiles and points; and the part of the
// time of a plain sum that a tile has to stay below.
constexpr double kWeightBytes = 6, kPointBytes = 16, kWorthwhile = 0.85;

using Exprs = std::vector<Expr>;

// Points are 0, pairs a and -a, and infinity.
std::span<const double> pairs_of(int64_t tile) {
  static constexpr double kOne[] = {1}, kTwo[] = {0.75, 1.5};
  return tile == 2 ? std::span<const double>(kOne) : kTwo;
}

// The sum of terms times factors; factors of 1 take no multiplication.
Expr weighted(Builder& b, const std::vector<std::pair<Expr, double>>& terms) {
  Expr sum;
  for (const auto& [x, factor] : terms) {
    if (factor == 0) continue;
    if (!sum.kernel) sum = factor == 1 ? x : x * factor;
    else sum = factor == 1 ? sum + x : fma(x, broadcast(b.f32(factor), x.lanes()), sum);
  }
  return b.let("z", sum);
}

// Appends even + odd and even - odd, the values at the points a and -a.
void push_pair(Builder& b, Expr even, Expr odd, Exprs* z) {
  z->push_back(b.let("z", even + odd));
  z->push_back(b.let("z", even - odd));
}

// Transforms an axis of the image: the values at a point are the coefficients of the product over all other finite points p of
// x - p; at infinity, over all.
Exprs image_points(Builder& b, const Exprs& d, int64_t tile) {
  const std::span<const double> pairs = pairs_of(tile);
  double product = -1, sum = 0;  // of x^2 - a^2 over all pairs: x^2 - sum, or x^4 - sum * x^2 + product
  for (double a : pairs) product *= -a * a, sum += a * a;
  const auto all = [&](size_t i) {
    return tile == 2 ? weighted(b, {{d[i + 2], 1}, {d[i], -sum}})
                     : weighted(b, {{d[i + 4], 1}, {d[i + 2], -sum}, {d[i], -product}});
  };
  Exprs z = {all(0)};
  for (double a : pairs) {
    const double other = sum - a * a;
    if (tile == 2) push_pair(b, d[2], d[1], &z);
    else push_pair(b, weighted(b, {{d[4], 1}, {d[2], -other}}), weighted(b, {{d[3], a}, {d[1], -a * other}}), &z);
  }
  z.push_back(all(1));
  return z;
}

// Transforms an axis of a weight: its polynomial at each point, over the product of the distances to the other points.
Exprs weight_points(Builder& b, const Exprs& g, int64_t tile) {
  const std::span<const double> pairs = pairs_of(tile);
  double zero = 1;
  for (double a : pairs) zero /= -a * a;
  Exprs z = {weighted(b, {{g[0], zero}})};
  for (double a : pairs) {
    double scale = 1 / (2 * a * a);
    for (double other : pairs)
      if (other != a) scale /= a * a - other * other;
    push_pair(b, weighted(b, {{g[0], scale}, {g[2], scale * a * a}}), weighted(b, {{g[1], scale * a}}), &z);
  }
  z.push_back(g[2]);
  return z;
}

// Transforms an axis of points to results.
Exprs results_of(Builder& b, const Exprs& z, int64_t tile) {
  const std::span<const double> pairs = pairs_of(tile);
  Exprs sums, differences, y;
  for (size_t p = 0; p < pairs.size(); ++p) {
    sums.push_back(b.let("s", z[2 * p + 1] + z[2 * p + 2]));
    differences.push_back(b.let("t", z[2 * p + 1] - z[2 * p + 2]));
  }
  std::vector<double> powers(pairs.size(), 1);
  for (int64_t q = 0; q < tile; ++q) {
    std::vector<std::pair<Expr, double>> terms;
    if (q == 0) terms.emplace_back(z.front(), 1);
    if (q == tile - 1) terms.emplace_back(z.back(), 1);
    for (size_t p = 0; p < pairs.size(); ++p) {
      terms.emplace_back(q % 2 == 0 ? sums[p] : differences[p], powers[p]);
      powers[p] *= pairs[p];
    }
    y.push_back(weighted(b, terms));
  }
  return y;
}

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

bool fits(const BlockedConv& c) {
  const BlockedWindows& w = c.windows;
  const std::array<int64_t, 2> three{3, 3}, one{1, 1};
  return w.kernel == three && w.stride == one && w.dilation == one && w.dtype == DType::F32 && c.weight == DType::F32 &&
         !c.dots && c.result == DType::F32 && c.groups == 1 && w.block > 1 && c.group_outputs % c.lanes == 0;
}

// Cycles of a core: products at two vectors per cycle or weights as they come, whichever takes longer, and the transforms.
double cycles(const BlockedConv& c, double products, double weights, double moved, const Mapping& m) {
  const double terms = static_cast<double>(c.windows.channels * c.group_outputs);
  return std::max(products * terms / (2. * m.vector_lanes(4)), 4 * weights * terms / kWeightBytes) + 4 * moved / kPointBytes;
}

}  // namespace

WinogradConv::WinogradConv(const BlockedConv& c, int64_t m)
    : tile(m), lanes(c.lanes), results(c.blocks() * c.lanes), out(c.windows.out), padded(c.windows), epilogue(c.epilogue) {
  for (size_t d = 0; d < 2; ++d) {
    tiles[d] = (out[d] + tile - 1) / tile;
    padded.out[d] = tiles[d] * tile;
  }
  const int64_t row_bytes = 4 * points() * tiles[1] * (padded.channels + results);
  const int64_t most = std::clamp<int64_t>(kBandBytes / row_bytes, 1, rows());
  const int64_t launches = (rows() + most - 1) / most;
  band = (rows() + launches - 1) / launches;
}

BlockedConv WinogradConv::products() const {
  BlockedConv c;
  c.windows.channels = points() * padded.channels;
  c.windows.block = padded.block;
  c.windows.in = c.windows.out = {1, band_tiles()};
  c.windows.kernel = {1, 1};
  c.groups = points();
  c.group_outputs = results;
  c.lanes = lanes;
  return c;
}

int64_t winograd_tile(const BlockedConv& c, const Mapping& m) {
  if (m.workgroups || !fits(c)) return 0;
  const BlockedWindows& w = c.windows;
  int64_t best = 0;
  double least = kWorthwhile * cycles(c, static_cast<double>(9 * constant_value(w.batch) * w.out[0] * w.out[1]), 9, 0, m);
  for (const int64_t tile : {int64_t{4}, int64_t{2}}) {
    const WinogradConv s(c, tile);
    const auto tiles = static_cast<double>(s.points() * s.rows() * s.tiles[1]);
    const double moved = 2 * tiles * static_cast<double>(w.channels + c.group_outputs);
    const double own = cycles(c, tiles, static_cast<double>(s.points()), moved, m);
    if (own < least) least = own, best = tile;
  }
  return best;
}

void build_winograd_weights(Builder& b, const WinogradConv& s, Index blocks, const Mapping& m) {
  const Expr depth = blocks.in(b.kernel()) * s.padded.block;
  Buf from = b.input("w", DType::F32, depth * (s.results * 9));
  Buf to = b.output("out", DType::F32, depth * (s.results * s.points()));
  const int lanes = static_cast<int>(s.lanes);
  for_each(b, m, "block", s.results / s.lanes, 1 << 16, [&](Expr block) {
    const PanelPlace at = panel_place(b, s.products(), block, depth, m);
    const Expr filters = b.let("filters", (block * s.lanes + ramp(b.i64(0), 1, lanes)) * (depth * 9));
    b.loop("c", depth, [&](Expr c) {
      std::vector<Exprs> columns(3);
      for (int64_t x = 0; x < 3; ++x)
        for (int64_t y = 0; y < 3; ++y)
          columns[static_cast<size_t>(x)].push_back(b.let("g", from.gather(filters + (c * 9 + (3 * y + x)))));
      const auto u = both_axes(columns, [&](const Exprs& g) { return weight_points(b, g, s.tile); });
      for (int64_t i = 0; i < s.side(); ++i)
        for (int64_t j = 0; j < s.side(); ++j)
          to.store(at.first + c * at.step + (i * s.side() + j) * (depth * s.results),
                   u[static_cast<size_t>(i)][static_cast<size_t>(j)]);
    });
  });
}

void build_winograd_tiles(Builder& b, const WinogradConv& s, Index first, Index blocks, const Mapping& m) {
  const BlockedWindows& w = s.padded;
  const Expr count = blocks.in(b.kernel()), begin = first.in(b.kernel());
  const int64_t pitch = w.extent(1) * w.block, plane = w.extent(0) * pitch, own = s.band_tiles() * w.block;
  Buf image = b.input("image", DType::F32, count * (s.images() * plane));
  Buf to = b.output("points", DType::F32, count * (s.points() * own));
  for_each(b, m, "work", count * s.band, 8 * s.points() * s.tiles[1] * w.block, [&](Expr work) {
    const Expr block = b.let("block", work / s.band), line = b.let("line", work % s.band);
    const Expr row = b.let("row", min(begin + line, s.rows() - 1));  // the last band may be smaller
    const Expr base = b.let("base", (row / s.tiles[0] * count + block) * plane + row % s.tiles[0] * (s.tile * pitch));
    const Expr place = b.let("place", block * own + line * (s.tiles[1] * w.block)), step = b.let("step", count * own);
    b.loop("t", s.tiles[1], [&](Expr t) {
      const Expr from = b.let("from", base + t * (s.tile * w.block)), at = b.let("at", place + t * w.block);
      std::vector<Exprs> columns(static_cast<size_t>(s.side()));
      for (int64_t x = 0; x < s.side(); ++x)
        for (int64_t y = 0; y < s.side(); ++y)
          columns[static_cast<size_t>(x)].push_back(
              b.let("d", image.load(from + (y * pitch + x * w.block), static_cast<int>(w.block))));
      const auto v = both_axes(columns, [&](const Exprs& d) { return image_points(b, d, s.tile); });
      for (int64_t i = 0; i < s.points(); ++i)
        to.store(at + step * i, v[static_cast<size_t>(i / s.side())][static_cast<size_t>(i % s.side())]);
    });
  });
}

void build_winograd_results(Builder& b, const WinogradConv& s, Index first, Index blocks, const Mapping& m) {
  const Expr count = blocks.in(b.kernel()), begin = first.in(b.kernel());
  const int64_t own = s.band_tiles() * s.lanes, positions = s.out[0] * s.out[1];
  const Expr elements = count * (s.images() * positions * s.lanes);
  Buf sums = b.input("sums", DType::F32, count * (s.points() * own));
  BlockedExtras extras(b, s.epilogue);
  Buf y = b.output("y", DType::F32, elements);
  const int lanes = static_cast<int>(s.lanes);
  for_each(b, m, "work", count * s.band, 8 * s.points() * s.tiles[1] * s.lanes, [&](Expr work) {
    const Expr block = b.let("block", work / s.band), line = b.let("line", work % s.band), row = b.let("row", begin + line);
    const Expr top = b.let("top", row % s.tiles[0] * s.tile), step = b.let("step", count * own);
    const Expr image = b.let("image", ((row / s.tiles[0] * count + block) * positions + top * s.out[1]) * s.lanes);
    const Expr place = b.let("place", block * own + line * (s.tiles[1] * s.lanes));
    const auto tile = [&](Expr t, int64_t columns) {
      const Expr at = b.let("at", place + t * s.lanes), to = b.let("to", image + t * (s.tile * s.lanes));
      std::vector<Exprs> square(static_cast<size_t>(s.side()));
      for (int64_t x = 0; x < s.side(); ++x)
        for (int64_t r = 0; r < s.side(); ++r)
          square[static_cast<size_t>(x)].push_back(b.let("m", sums.load(at + step * (r * s.side() + x), lanes)));
      const auto z = both_axes(square, [&](const Exprs& v) { return results_of(b, v, s.tile); });
      const auto write = [&](int64_t r) {
        for (int64_t x = 0; x < columns; ++x) {
          const Expr pixel = to + (r * s.out[1] + x) * s.lanes;
          y.store(pixel, extras.apply(z[static_cast<size_t>(r)][static_cast<size_t>(x)], pixel));
        }
      };
      for (int64_t r = 0; r < s.tile; ++r)
        if (s.out[0] % s.tile <= r && s.out[0] % s.tile > 0) b.when(top + r < s.out[0], [&] { write(r); });
        else write(r);
    };
    b.when(row < s.rows(), [&] {
      extras.begin(block * s.lanes, lanes);
      b.loop("t", s.out[1] / s.tile, [&](Expr t) { tile(t, s.tile); });
      if (s.out[1] % s.tile > 0) tile(b.i64(s.out[1] / s.tile), s.out[1] % s.tile);
    });
  });
}

}  // namespace rlxc::kernel
