// The solver's view of a problem: sizes in units, live ranges in sections, one instance per span of time that shares no buffer
// with the rest. A section is a maximal set of buffers that are live together. Live ranges are intervals, so two buffers overlap
// exactly if they share a section, and there are at most as many sections as buffers.
#pragma once
#include <cstdint>
#include <vector>

#include "plan/problem.h"

namespace rlxc::plan {

inline int64_t round_up(int64_t n, int64_t align) { return align == 1 ? n : (n + align - 1) / align * align; }

struct Item {
  static constexpr int64_t kFree = -1;

  uint32_t lo, hi;  // live in the sections lo <= s < hi
  int64_t size;     // units, >= 1
  int64_t align;    // units, >= 1
  int64_t fixed;    // offset in units, or kFree
  uint32_t buffer;  // index in the problem
  uint64_t steps;   // length of the live range in the schedule
  int64_t load;     // highest load of its sections
};

struct Instance {
  std::vector<Item> items;    // by lo, then longest first, then buffer
  std::vector<int64_t> load;  // by section: sum of live sizes
  int64_t bound = 0;          // lower bound of the height
  bool any_fixed = false;
  bool any_aligned = false;  // some alignment exceeds one unit

  uint32_t sections() const { return static_cast<uint32_t>(load.size()); }
};

struct Split {
  int64_t unit = 1;
  std::vector<Instance> parts;  // in time order, without buffers of no size or an empty live range
};

// The problem must pass `check`. O(n log n).
Split split(const Problem&);

}  // namespace rlxc::plan
