// Lowers a placement by the exact search: first the goal, then heights below the best known one. Rounds with growing budgets and
// several orders end easy instances early and divide the budget evenly among hard ones.
#pragma once
#include <cstdint>

#include "plan/placement.h"
#include "plan/search.h"

namespace rlxc::plan {

// `goal_only`: tries heights above `enough` in the first round only. Stops when `best` is at most `enough` or proved optimal, or
// the budget is used up.
void improve(const Instance&, const SearchOptions&, int64_t enough, bool goal_only, Effort&, Placement& best);

}  // namespace rlxc::plan
