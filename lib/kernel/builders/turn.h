// Transposition of a square of elements in vectors.
#pragma once
#include <vector>

#include "kernel/builders/common.h"

namespace rlxc::kernel {

// Vector i of the result has lane i of each operand, of as many lanes as there are operands: a power of two. Stages of perfect
// shuffles (Stone, "Parallel Processing with the Perfect Shuffle", 1971).
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
