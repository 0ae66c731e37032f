#include "commands/layer_search.h"

#include <algorithm>
#include <numeric>

namespace rlxc {

std::optional<std::vector<bool>> layers_to_keep(const std::vector<double>& accuracy, const IsGood& is_good) {
  const size_t n = accuracy.size();
  std::vector<size_t> order(n);  // the worst first
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return accuracy[i]; });
  const auto first = [&](size_t count) {
    std::vector<bool> kept(n);
    for (size_t i = 0; i < count; ++i) kept[order[i]] = true;
    return kept;
  };
  auto good = is_good(first(0));
  if (!good) return std::nullopt;
  if (*good) return first(0);
  size_t bad = 0, enough = n;
  while (enough - bad > 1) {
    const size_t middle = bad + (enough - bad) / 2;
    if (!(good = is_good(first(middle)))) return std::nullopt;
    (*good ? enough : bad) = middle;
  }
  std::vector<bool> kept = first(enough);
  for (size_t i = enough; i-- > 0;) {
    kept[order[i]] = false;
    if (!(good = is_good(kept))) return std::nullopt;
    if (!*good) kept[order[i]] = true;
  }
  return kept;
}

}  // namespace rlxc
