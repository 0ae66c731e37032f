// The solver's view of a problem: sizes in slot units, lives in sections, one instance per part of time that shares no buffer
// with the rest. A section is a maximal set of buffers that live together (lives are intervals, so buffers overlap exactly if
// they share one), which makes at most as many sections as buffers, however long the schedule.
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
  int64_t fixed;    // units, or kFree
  uint32_t buffer;  // index in the problem
  uint64_t steps;   // the length of its life in the schedule
  int64_t load;     // the highest load of the sections it lives in
};

struct Instance {
  std::vector<Item> items;    // by lo, then longest first, then buffer
  std::vector<int64_t> load;  // per section: the sum of live sizes
  int64_t bound = 0;          // lower bound of the height
  bool any_fixed = false;
  bool any_aligned = false;  // some item is aligned to more than one unit

  uint32_t sections() const { return static_cast<uint32_t>(load.size()); }
};

struct Split {
  int64_t unit = 1;
  std::vector<Instance> parts;  // in time order; buffers without size or life are in none
};

// The problem must pass `check`. O(n log n).
Split split(const Problem&);

}  // namespace rlxc::plan
