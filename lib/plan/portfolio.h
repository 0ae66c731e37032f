// The best of all greedy orders, then repair rounds: items above the goal move to the front of the order ("squeaky wheel"
// optimisation, Joslin and Clements, JAIR 1999).
#pragma once
#include <cstdint>

#include "plan/placement.h"

namespace rlxc::plan {

struct GreedyRounds {
  size_t orders = SIZE_MAX;  // limit on the number of orders, the best first
  bool best_fit = true;      // also tries best fit in each order
  uint32_t repairs = 0;      // limit on rounds without a gain
};

// Lowers `best` until it is at most `enough` or `work` (see Placer) is used up. Reduces `work`. Leaves `best` without offsets if
// no order was completed.
void place_greedily(const Instance&, int64_t enough, GreedyRounds, uint64_t* work, Placement& best);

}  // namespace rlxc::plan
