// Lowers a placement with the exact search: the goal first, then heights below the best known, over and over with growing budgets
// and several orders, so that easy instances end at once and hard ones share the budget fairly.
#pragma once
#include <cstdint>

#include "plan/placement.h"
#include "plan/search.h"

namespace rlxc::plan {

// With `goal_only`, heights above `enough` are tried in the first round only. Stops when `best` is at most `enough`, when it is
// proved optimal, or out of budget.
void improve(const Instance&, const SearchOptions&, int64_t enough, bool goal_only, Effort&, Placement& best);

}  // namespace rlxc::plan
