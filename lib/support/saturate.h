// Saturating conversions and negation without undefined behaviour, for numbers from files.
#pragma once
#include <concepts>
#include <cstdint>
#include <limits>

namespace rlxc {

// Truncates `v` toward zero and saturates to the range of T; NaN gives 0.
template <std::integral T>
constexpr T saturating_cast(double v) {
  using L = std::numeric_limits<T>;
  if (v != v) return 0;
  if (v <= static_cast<double>(L::min())) return L::min();
  if (v >= static_cast<double>(L::max())) return L::max();
  return static_cast<T>(v);
}

}  // namespace rlxc
