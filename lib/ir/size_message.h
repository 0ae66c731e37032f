// The message about a size that a model requires and the inputs do not have.
#pragma once
#include <string>

#include "ir/dim.h"

namespace rlxc {

// `a` and `b` must be equal, and are x and y. Where b is a symbol and a its minimum with a number, the number is a limit of it.
inline std::string unequal_sizes(const DimTable& dims, Dim a, Dim b, int64_t x, int64_t y) {
  const std::string s = dims.text(a), t = dims.text(b);
  const auto is_limit = [](const std::string& least, const std::string& symbol, int64_t limit) {
    return least == "min(" + symbol + "," + std::to_string(limit) + ")";
  };
  if (is_limit(s, t, x)) return t + " is " + std::to_string(y) + ", the model has room for " + std::to_string(x) + " at most";
  if (is_limit(t, s, y)) return s + " is " + std::to_string(x) + ", the model has room for " + std::to_string(y) + " at most";
  return "the model needs " + s + " = " + t + ", the inputs give " + std::to_string(x) + " and " + std::to_string(y);
}

}  // namespace rlxc
