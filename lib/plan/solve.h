// Offsets for a problem: a portfolio of fast heuristics, local improvement, then an exact search. It stops as soon as the height
// meets the lower bound. Every budget counts work, never time, so the plan is the same on every run and machine.
#pragma once
#include <cstdint>

#include "plan/problem.h"
#include "plan/search.h"

namespace rlxc::plan {

struct SolveOptions {
  bool greedy = true;     // Place in the order of size, area, load, ..., into the lowest or the tightest gap.
  bool repair = true;     // Move items that stuck out of the best greedy order to its front, and place again.
  bool skyline = true;    // Place on the skyline of what is placed, lowest first; then repair that order.
  bool sweep = true;      // Where no greedy order ends within its budget, place in time order: O(n log n) whatever the overlaps.
  bool ejection = true;   // Place what sticks out where least is in the way, which then has to find another place.
  bool core = true;       // In large parts, search the items where the load is tightest and place the rest around them.
  bool fillers = true;    // Search with items for all room that would be left at the least height.
  bool search = true;     // Look for lower placements with the exact search.
  bool minimise = false;  // With a capacity: go on below it instead of stopping at the first placement that fits.
  SearchOptions pruning;

  uint64_t greedy_work = 2'000'000;             // visits of placed items in greedy orders, about 2 * 10^8 a second, in each part,
  uint64_t greedy_work_per_item = 100;          // and as many again for each of its items
  uint32_t repair_rounds = 12;                  // without a gain
  uint32_t skyline_rounds = 24;                 // without a gain
  uint64_t skyline_work = 150'000'000;          // item visits in each part
  uint64_t ejection_work = 20'000'000;          // likewise, of ejections in each part, but not more for each pair of items,
  uint64_t ejection_work_per_item = 80;         // or for each item of a part that is left to the heuristics
  uint64_t final_ejection_work = 0;             // and after the search
  uint64_t search_work = 400'000'000;           // of the exact search as in SearchBudget, all parts together,
  uint64_t search_work_base = 1'000'000;        // and in one part this much,
  uint64_t search_work_per_pair = 500;          // and as much again for each pair of its items
  uint64_t search_work_to_fit = 4'000'000'000;  // instead of both while a given capacity is exceeded
  uint32_t search_items = 4096;                 // parts with more items are left to the heuristics
};

// For a planner that is used alone: some ten seconds for each unit of effort where the lower bound is hard to meet.
SolveOptions thorough(uint64_t effort = 1);

// A problem that breaks `check` gets a Solution without offsets.
Solution solve(const Problem&, const SolveOptions& = {});

}  // namespace rlxc::plan
