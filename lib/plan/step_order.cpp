#include "plan/step_order.h"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>

namespace rlxc::plan {

std::vector<uint32_t> order_by_step(std::span<const int64_t> steps) {
  constexpr int kDigitBits = 11;
  constexpr size_t kDigits = size_t{1} << kDigitBits;
  std::vector<uint32_t> order(steps.size());
  std::iota(order.begin(), order.end(), 0u);
  if (std::ranges::is_sorted(steps)) return order;
  const auto [low, high] = std::ranges::minmax(steps);
  const auto key = [&, base = static_cast<uint64_t>(low)](uint32_t i) { return static_cast<uint64_t>(steps[i]) - base; };
  const int bits = std::bit_width(static_cast<uint64_t>(high) - static_cast<uint64_t>(low));
  std::vector<uint32_t> next(order.size());
  for (int shift = 0; shift < bits; shift += kDigitBits) {
    std::array<size_t, kDigits + 1> begin{};
    for (uint32_t i : order) ++begin[(key(i) >> shift) % kDigits + 1];
    std::partial_sum(begin.begin(), begin.end(), begin.begin());
    for (uint32_t i : order) next[begin[(key(i) >> shift) % kDigits]++] = i;
    order.swap(next);
  }
  return order;
}

}  // namespace rlxc::plan
