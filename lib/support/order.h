#pragma once
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

namespace rlxc {

// Indices of the keys in ascending order (stable). O(n log n).
template <class T>
std::vector<int64_t> ascending(const std::vector<T>& keys) {
  std::vector<int64_t> order(keys.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](int64_t i) { return keys[static_cast<size_t>(i)]; });
  return order;
}

}  // namespace rlxc
