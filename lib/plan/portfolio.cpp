#include "plan/portfolio.h"

#include <algorithm>
#include <iterator>

#include "plan/greedy.h"

namespace rlxc::plan {

void place_greedily(const Instance& part, int64_t enough, GreedyRounds rounds, uint64_t* work, Placement& best) {
  Placer placer(part);
  std::vector<uint32_t> best_order;
  std::vector<int64_t> offsets;
  Fit best_fit = Fit::First;
  auto attempt = [&](const std::vector<uint32_t>& order, Fit fit, int64_t limit, const char* name) {
    const int64_t height = placer.place(order, fit, limit, work, &offsets);
    if (height >= best.height) return;
    best.height = height;
    best.offsets = offsets;
    best.method = std::string(fit == Fit::First ? "first fit by " : "best fit by ") + name;
    best_order = order;
    best_fit = fit;
  };
  for (const OrderKey& key : order_keys().first(std::min(rounds.orders, order_keys().size()))) {
    const std::vector<uint32_t> order = order_by(part, key);
    for (Fit fit : {Fit::First, Fit::Best}) {
      if (best.height <= enough || *work == 0) return;
      if (fit == Fit::Best && !rounds.best_fit) break;
      attempt(order, fit, best.height, key.name);
    }
  }
  if (best_order.empty()) return;
  std::vector<uint32_t> order = best_order, late;
  offsets = best.offsets;
  uint32_t last_gain = 0;
  for (uint32_t round = 0; round < last_gain + rounds.repairs && best.height > enough && *work > 0; ++round) {
    const int64_t before = best.height;
    late.clear();
    auto sticks_out = [&](uint32_t k) { return offsets[k] + part.items[k].size > enough; };
    std::copy_if(order.begin(), order.end(), std::back_inserter(late), sticks_out);
    std::copy_if(order.begin(), order.end(), std::back_inserter(late), [&](uint32_t k) { return !sticks_out(k); });
    order.swap(late);
    attempt(order, best_fit, INT64_MAX, "repaired order");
    if (best.height < before) last_gain = round;
  }
}

}  // namespace rlxc::plan
