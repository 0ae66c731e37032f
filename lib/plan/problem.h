// Offset assignment: buffers with known lives and sizes go into one arena so that no two that live together overlap, and
// the arena is as small as possible ("dynamic storage allocation", strongly NP-hard: Garey and Johnson, SR2). This room
// sees lives and sizes only: what a buffer holds and why it lives that long is its caller's knowledge.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace rlxc {
class Diagnostics;
}

namespace rlxc::plan {

struct Buffer {
  static constexpr uint64_t kFree = ~uint64_t{0};

  int64_t start = 0, end = 0;  // live in the steps start <= t < end; an empty life conflicts with nothing
  uint64_t size = 0;           // bytes; 0 takes no room and gets offset 0 unless fixed
  uint64_t align = 64;         // the offset is a multiple of it; any number >= 1
  uint64_t fixed = kFree;      // the offset, where the caller has decided it
};

struct Problem {
  std::vector<Buffer> buffers;
  uint64_t capacity = 0;  // bytes of the arena; 0 = unbounded
};

// Slots are whole units: the unit is the greatest common divisor of all alignments and fixed offsets, so a slot holds `size`
// rounded up to it and `height` is a multiple of it.
struct Solution {
  std::vector<uint64_t> offsets;  // one per buffer; empty if the problem breaks `check`
  uint64_t height = 0;            // arena bytes used: the largest slot end
  uint64_t lower_bound = 0;
  std::string method;    // which algorithm found it
  bool optimal = false;  // height is proved minimal: it meets the lower bound or the search is exhausted
  bool fits = false;     // height <= capacity, or no capacity given
  uint64_t nodes_searched = 0;
};

struct PeakInfo {
  uint64_t bytes = 0;             // largest sum of live slots
  int64_t step = 0;               // the first step where it occurs
  std::vector<uint32_t> buffers;  // those live there, ascending
};

// Reports lives that end before they start, alignments of 0, misaligned or clashing fixed offsets, and sums beyond 2^62.
bool check(const Problem&, Diagnostics&);

// Both need a problem that passes `check`. O(n log n).
PeakInfo peak(const Problem&);
uint64_t lower_bound(const Problem&);  // at least the peak, each single slot, and each fixed slot's end

uint64_t slot_unit(const Problem&);

}  // namespace rlxc::plan
