// A register tile of sums of products.
#pragma once
#include <algorithm>
#include <vector>

#include "kernel/builders/common.h"

namespace rlxc::kernel {

struct SumTile {
  int rows = 1, vectors = 1, lanes = 1;
};

// Rows of tiles of `vectors` columns for `count` rows, `most` sums at most. Tiles take whole numbers of rows, those after the
// last included: fewer rows waste less, more rows need fewer tiles, each of which costs as much as some multiply-adds. Fewer sums
// than multiply-adds in flight take as long as these.
inline int tile_rows(int64_t count, int vectors, int most, int64_t depth) {
  constexpr int64_t kTile = 40, kInFlight = 8;
  const auto cost = [&](int64_t rows) { return ceil_div(count, rows) * (std::max(rows * vectors, kInFlight) * depth + kTile); };
  int best = std::max(most / vectors, 1);
  for (int rows = best - 1; rows > 0; --rows)
    if (cost(rows) < cost(best)) best = rows;
  return best;
}

// Computes sum = start(i, v) + sum over p < depth of left(i, p) * right(p, v) for each row i and vector v of columns. Calls
// store(i, v, sum). left() gives a scalar; start() and right() give vectors of `lanes`.
template <class Start, class Left, class Right, class Store>
void tile_sums(Builder& b, const SumTile& t, const Index& depth, const Start& start, const Left& left, const Right& right,
               const Store& store) {
  std::vector<Buf> sums;
  for (int i = 0; i < t.rows; ++i)
    for (int v = 0; v < t.vectors; ++v) sums.push_back(b.variable("part", start(i, v)));
  b.loop("p", depth, [&](Expr p) {
    std::vector<Expr> values;
    for (int v = 0; v < t.vectors; ++v) values.push_back(b.let("value", right(p, v)));
    for (int i = 0; i < t.rows; ++i) {
      const Expr x = broadcast(b.let("x", left(i, p)), t.lanes);
      for (int v = 0; v < t.vectors; ++v) {
        Buf& sum = sums[static_cast<size_t>(i * t.vectors + v)];
        sum.set(fma(x, values[static_cast<size_t>(v)], sum.get()));
      }
    }
  });
  for (int i = 0; i < t.rows; ++i)
    for (int v = 0; v < t.vectors; ++v) store(i, v, sums[static_cast<size_t>(i * t.vectors + v)].get());
}

// Calls piece(column, vectors, lanes) for pieces of `columns` columns: as many vectors in each as possible, then single columns.
template <class Piece>
void in_pieces(Builder& b, int64_t columns, int most_vectors, int lanes, const Piece& piece) {
  while (lanes > columns) lanes /= 2;
  const int64_t vectors = columns / lanes, wide = ceil_div(vectors, ceil_div(vectors, int64_t{most_vectors})),
                pieces = vectors / wide;
  b.loop("c", pieces, [&](Expr c) { piece(c * (wide * lanes), static_cast<int>(wide), lanes); });
  if (const int64_t rest = vectors - pieces * wide) piece(b.i64(pieces * wide * lanes), static_cast<int>(rest), lanes);
  if (vectors * lanes < columns) b.loop("d", columns - vectors * lanes, [&](Expr d) { piece(d + vectors * lanes, 1, 1); });
}

}  // namespace rlxc::kernel
