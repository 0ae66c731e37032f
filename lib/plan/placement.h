// What the stages of the solver hand on: the best placement so far and the work they may still do.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "plan/instance.h"

namespace rlxc::plan {

struct Placement {
  std::vector<int64_t> offsets;  // by item
  int64_t height = INT64_MAX;
  int64_t proved = 0;  // no placement is lower
  std::string method;
};

struct Effort {
  uint64_t work = 0;   // in: budget as in SearchBudget; out: what is left of it
  uint64_t nodes = 0;  // out: nodes searched
};

}  // namespace rlxc::plan
