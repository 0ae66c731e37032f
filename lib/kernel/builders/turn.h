// Transposition of a square of elements in vectors.
#pragma once
#include <vector>

#include "kernel/builders/common.h"

namespace rlxc::kernel {

// Returns vectors of which number i has lane i of each operand. There are as many operands as lanes: a power of two. The stages
// are perfect shuffles (Stone, "Parallel Processing with the Perfect Shuffle", 1971).
inline std::vector<Expr> turned(Builder& b, std::vector<Expr> rows) {
  const size_t half = rows.size() / 2;
  for (size_t stage = 1; stage < rows.size(); stage *= 2) {
    std::vector<Expr> next;
    for (size_t i = 0; i < half; ++i) {
      next.push_back(b.let("turned", interleave_low(rows[i], rows[i + half])));
      next.push_back(b.let("turned", interleave_high(rows[i], rows[i + half])));
    }
    rows = std::move(next);
  }
  return rows;
}

}  // namespace rlxc::kernel
