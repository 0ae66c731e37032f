// Assigns offsets: a portfolio of fast heuristics, local improvement, then an exact search. Stops when the height meets the lower
// bound. Budgets count work, not time, so the plan is the same on every run and machine.
#pragma once
#include <cstdint>

#include "plan/problem.h"
#include "plan/search.h"

namespace rlxc::plan {

struct SolveOptions {
  bool greedy = true;     // Place in orders by size, area, load and others, into the lowest or the tightest gap.
  bool repair = true;     // Move items above the goal to the front of the best greedy order and place again.
  bool skyline = true;    // Place on the skyline, lowest rest first; then repair that order.
  bool sweep = true;      // If no greedy order fits the budget, place in time order, O(n log n).
  bool ejection = true;   // Move items above the goal to offsets with the least conflicts and eject the items in conflict.
  bool core = true;       // In large parts, search the items where the load is tightest and place the rest around them.
  bool fillers = true;    // Search with filler items for the free space at the lower bound.
  bool search = true;     // Lower the placement by the exact search.
  bool minimise = false;  // With a capacity: continue after the first placement that fits.
  SearchOptions pruning;

  uint64_t greedy_work = 2'000'000;             // per part: visits of placed items in greedy orders, about 2 * 10^8 per second
  uint64_t greedy_work_per_item = 100;          // added per item of the part
  uint64_t greedy_work_large = 200'000'000;     // limit in parts too large to search
  uint32_t repair_rounds = 12;                  // limit on rounds without a gain
  uint32_t skyline_rounds = 24;                 // limit on rounds without a gain
  uint64_t skyline_work = 150'000'000;          // per part: item visits
  uint64_t ejection_work = 20'000'000;          // per part: visits, but at most the next value per pair of items
  uint64_t ejection_work_per_item = 80;         // per pair of items; per item in parts too large to search
  uint64_t ejection_work_large = 40'000'000;    // limit in parts too large to search
  uint64_t final_ejection_work = 0;             // after the search
  uint64_t search_work = 400'000'000;           // over all parts, as in SearchBudget
  uint64_t search_work_base = 1'000'000;        // per part
  uint64_t search_work_per_pair = 500;          // added per pair of items of the part
  uint64_t search_work_to_fit = 4'000'000'000;  // replaces both while a given capacity is exceeded
  uint32_t search_items = 4096;                 // limit on items of a part that is searched
  uint64_t exact_items = 4'000'000;             // in larger parts, time order and ejection are final
};

// Options for a stand-alone planner: some ten seconds per unit of effort if the lower bound is hard to meet.
SolveOptions thorough(uint64_t effort = 1);

// A problem that fails `check` gets a Solution without offsets.
Solution solve(const Problem&, const SolveOptions& = {});

}  // namespace rlxc::plan
