#include "plan/step_order.h"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>

namespace rlxc::plan {

namespace {

// A pass moves each entry with its key: to look up the keys of entries in another order would miss the cache at every one.
template <class Key>
std::vector<uint32_t> radix_order(std::span<const int64_t> steps, int64_t low, int bits) {
  constexpr int kDigitBits = 11;
  constexpr size_t kDigits = size_t{1} << kDigitBits;
  struct Entry {
    Key key;
    uint32_t index;
  };
  std::vector<Entry> entries(steps.size()), next(steps.size());
  for (uint32_t i = 0; i < steps.size(); ++i)
    entries[i] = {static_cast<Key>(static_cast<uint64_t>(steps[i]) - static_cast<uint64_t>(low)), i};
  for (int shift = 0; shift < bits; shift += kDigitBits) {
    std::array<size_t, kDigits + 1> begin{};
    for (const Entry& e : entries) ++begin[(e.key >> shift) % kDigits + 1];
    std::partial_sum(begin.begin(), begin.end(), begin.begin());
    for (const Entry& e : entries) next[begin[(e.key >> shift) % kDigits]++] = e;
    entries.swap(next);
  }
  std::vector<uint32_t> order;
  order.reserve(entries.size());
  for (const Entry& e : entries) order.push_back(e.index);
  return order;
}

}  // namespace

std::vector<uint32_t> order_by_step(std::span<const int64_t> steps) {
  if (std::ranges::is_sorted(steps)) {
    std::vector<uint32_t> order(steps.size());
    std::iota(order.begin(), order.end(), 0u);
    return order;
  }
  const auto [low, high] = std::ranges::minmax(steps);
  const int bits = std::bit_width(static_cast<uint64_t>(high) - static_cast<uint64_t>(low));
  return bits <= 32 ? radix_order<uint32_t>(steps, low, bits) : radix_order<uint64_t>(steps, low, bits);
}

}  // namespace rlxc::plan
