// Offsets for a problem: a portfolio of fast heuristics, local improvement, then an exact search. It stops as soon as the height
// meets the lower bound. Every budget counts work, never time, so the plan is the same on every run and machine.
#pragma once
#include <cstdint>

#include "plan/problem.h"
#include "plan/search.h"

namespace rlxc::plan {

struct SolveOptions {
  bool sweep = true;      // Place in time order into the tightest gap: O(n log n) whatever the overlaps.
  bool greedy = true;     // Place in the order of size, area, length, ..., into the lowest or the tightest gap.
  bool search = true;     // Look for lower placements with the exact search.
  bool minimise = false;  // With a capacity: go on below it instead of stopping at the first placement that fits.
  SearchOptions pruning;

  uint64_t greedy_work = 60'000'000;  // steps of greedy orders; each order takes n^2 / 2
  uint64_t search_work = 50'000'000;  // item visits of the exact search, about 10^9 a second
  uint32_t search_items = 4096;       // parts with more items are left to the heuristics
};

// A problem that breaks `check` gets a Solution without offsets.
Solution solve(const Problem&, const SolveOptions& = {});

}  // namespace rlxc::plan
