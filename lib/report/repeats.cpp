#include "report/repeats.h"

#include <algorithm>

namespace rlxc::report {
namespace {

constexpr size_t kLongestPart = 400;

// The best run in items[low, high); count 0 if there is none.
Repeat best_run(std::span<const uint32_t> items, size_t low, size_t high, size_t least) {
  Repeat best;
  size_t best_saved = least - 1;
  for (size_t length = 2; length <= std::min((high - low) / 2, kLongestPart); ++length) {
    size_t equal = 0;
    for (size_t i = low; i + length <= high; ++i) {
      if (i + length < high && items[i] == items[i + length]) {
        ++equal;
        continue;
      }
      const size_t saved = equal / length * length;
      if (saved > best_saved) {
        best_saved = saved;
        best = {i - equal, length, equal / length + 1};
      }
      equal = 0;
    }
  }
  return best;
}

}  // namespace

std::vector<Repeat> repeats(std::span<const uint32_t> items, size_t least) {
  std::vector<Repeat> out;
  std::vector<std::pair<size_t, size_t>> open{{0, items.size()}};
  while (!open.empty()) {
    const auto [low, high] = open.back();
    open.pop_back();
    const Repeat run = best_run(items, low, high, std::max<size_t>(least, 1));
    if (run.count == 0) continue;
    out.push_back(run);
    open.emplace_back(low, run.start);
    open.emplace_back(run.start + run.length * run.count, high);
  }
  std::ranges::sort(out, {}, &Repeat::start);
  return out;
}

}  // namespace rlxc::report
