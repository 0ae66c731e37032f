// Results that solver stages pass on: the best placement and the remaining budget.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "plan/instance.h"

namespace rlxc::plan {

struct Placement {
  std::vector<int64_t> offsets;  // by item
  int64_t height = INT64_MAX;
  int64_t proved = 0;  // lower bound of the height, proved
  std::string method;
};

struct Effort {
  uint64_t work = 0;   // in: budget as in SearchBudget; out: remainder
  uint64_t nodes = 0;  // out: nodes searched
};

}  // namespace rlxc::plan
