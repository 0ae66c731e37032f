// Lowers a placement with the exact search: the goal first, then heights between it and the best known, over and over with
// growing budgets and several orders, so that easy instances end at once and hard ones share the budget fairly.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "plan/instance.h"
#include "plan/search.h"

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

// Stops when `best` is at most `enough`, when it is proved optimal, or out of budget.
void improve(const Instance&, const SearchOptions&, int64_t enough, Effort&, Placement& best);

}  // namespace rlxc::plan
