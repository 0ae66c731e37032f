// Transposition and interleaving of vectors.
#pragma once
#include <vector>

#include "kernel/builders/common.h"

namespace rlxc::kernel {

// Transposes a square: result i holds lane i of each operand. There are as many operands as lanes, a power of two. Most
// processors move lanes at least cost within 16 bytes. Parts of 16 bytes are transposed by perfect shuffles (Stone, "Parallel
// Processing with the Perfect Shuffle", 1971), then the square of parts by taking every other part.
inline std::vector<Expr> turned(Builder& b, std::vector<Expr> rows) {
  constexpr size_t kPartBytes = 16;
  const size_t all = rows.size(), bytes = static_cast<size_t>(std::max(rlxc::bits(rows[0].dtype()) / 8, 1));
  const size_t part = std::min(all, kPartBytes / bytes), half = part / 2;
  const int group = part < all ? static_cast<int>(part) : 0;
  for (size_t stage = 1; stage < part; stage *= 2) {
    std::vector<Expr> next;
    for (size_t first = 0; first < all; first += part)
      for (size_t i = first; i < first + half; ++i) {
        next.push_back(b.let("turned", interleave_low(rows[i], rows[i + half], group)));
        next.push_back(b.let("turned", interleave_high(rows[i], rows[i + half], group)));
      }
    rows = std::move(next);
  }
  for (size_t stage = part; stage < all; stage *= 2) {
    std::vector<Expr> even, odd;
    for (size_t first = 0; first < all; first += 2 * part)
      for (size_t i = first; i < first + part; ++i) {
        even.push_back(b.let("turned", even_lanes(rows[i], rows[i + part], group)));
        odd.push_back(b.let("turned", odd_lanes(rows[i], rows[i + part], group)));
      }
    rows = std::move(even);
    rows.insert(rows.end(), odd.begin(), odd.end());
  }
  return rows;
}

// Interleaves vectors, of which there is a power of two: the first lanes of all, then the second ones, and so on.
inline std::vector<Expr> interleaved(Builder& b, std::vector<Expr> rows) {
  const size_t all = rows.size(), half = all / 2;
  for (size_t stage = 1; stage < all; stage *= 2) {
    std::vector<Expr> next;
    for (size_t i = 0; i < half; ++i) {
      next.push_back(b.let("mixed", interleave_low(rows[i], rows[i + half])));
      next.push_back(b.let("mixed", interleave_high(rows[i], rows[i + half])));
    }
    rows = std::move(next);
  }
  return rows;
}

}  // namespace rlxc::kernel
