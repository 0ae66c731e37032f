// Overflow-checked arithmetic: returns nullopt instead of wrapping around. Sizes may come from hostile files.
#pragma once
#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>

namespace rlxc {

template <std::integral T>
constexpr std::optional<T> checked_add(T a, std::type_identity_t<T> b) {
  T r;
  if (__builtin_add_overflow(a, b, &r)) return std::nullopt;
  return r;
}

template <std::integral T>
constexpr std::optional<T> checked_sub(T a, std::type_identity_t<T> b) {
  T r;
  if (__builtin_sub_overflow(a, b, &r)) return std::nullopt;
  return r;
}

template <std::integral T>
constexpr std::optional<T> checked_mul(T a, std::type_identity_t<T> b) {
  T r;
  if (__builtin_mul_overflow(a, b, &r)) return std::nullopt;
  return r;
}

// The number of elements of a shape: 1 for rank 0, 0 if any dim is 0. Nullopt if a dim is negative or the product exceeds int64.
constexpr std::optional<int64_t> checked_product(std::span<const int64_t> dims) {
  bool zero = false;
  for (int64_t d : dims) {
    if (d < 0) return std::nullopt;
    zero |= d == 0;
  }
  if (zero) return 0;
  std::optional<int64_t> product = 1;
  for (size_t i = 0; product && i < dims.size(); ++i) product = checked_mul(*product, dims[i]);
  return product;
}

// The smallest multiple of `alignment` (> 0, not necessarily a power of two) that is >= `n`. Nullopt on overflow.
constexpr std::optional<uint64_t> align_up(uint64_t n, uint64_t alignment) {
  const uint64_t rest = n % alignment;
  return rest == 0 ? std::optional<uint64_t>(n) : checked_add(n, alignment - rest);
}

// Returns whether [offset, offset + length) is within `size` bytes.
constexpr bool in_bounds(uint64_t offset, uint64_t length, uint64_t size) { return offset <= size && length <= size - offset; }

}  // namespace rlxc
