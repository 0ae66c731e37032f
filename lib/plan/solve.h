// Offsets for a problem: a portfolio of fast heuristics, local improvement, then an exact search. It stops as soon as the height
// meets the lower bound. Every budget counts work, never time, so the plan is the same on every run and machine.
#pragma once
#include <cstdint>

#include "plan/problem.h"

namespace rlxc::plan {

struct SolveOptions {
  bool sweep = true;                   // Place in time order into the tightest gap: O(n log n) whatever the overlaps.
  bool greedy = true;                  // Place in the order of size, area, length, ..., into the lowest or the tightest gap.
  uint64_t greedy_steps = 60'000'000;  // work allowed for greedy orders; each takes n^2 / 2
};

// A problem that breaks `check` gets a Solution without offsets.
Solution solve(const Problem&, const SolveOptions& = {});

}  // namespace rlxc::plan
