// The best of all greedy orders, then rounds that move whatever stuck out of the goal to the front of the best order ("squeaky
// wheel" optimisation, Joslin and Clements, JAIR 1999).
#pragma once
#include <cstdint>

#include "plan/placement.h"

namespace rlxc::plan {

struct GreedyRounds {
  size_t orders = SIZE_MAX;  // at most so many of the orders, the best first
  bool best_fit = true;      // after first fit, in each order
  uint32_t repairs = 0;      // so many rounds without a gain
};

// Lowers `best` until it is at most `enough` or `work` (see Placer) is used up, which it reduces. Leaves it without offsets if
// no order ended.
void place_greedily(const Instance&, int64_t enough, GreedyRounds, uint64_t* work, Placement& best);

}  // namespace rlxc::plan
