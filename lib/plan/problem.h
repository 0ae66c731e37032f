// Offset assignment: places buffers of given live ranges and sizes in the smallest arena where no two live buffers overlap
// ("dynamic storage allocation", strongly NP-hard: Garey and Johnson, SR2). This library knows nothing of ops and values.
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

  int64_t start = 0, end = 0;  // live in the steps start <= t < end; an empty range conflicts with nothing
  uint64_t size = 0;           // bytes; size 0 gets offset 0 unless fixed
  uint64_t align = 64;         // alignment of the offset; any number >= 1
  uint64_t fixed = kFree;      // offset chosen by the caller
};

struct Problem {
  std::vector<Buffer> buffers;
  uint64_t capacity = 0;  // bytes of the arena; 0: unbounded
};

// Slots are multiples of a unit, the greatest common divisor of all alignments and fixed offsets: `size` is rounded up to it, and
// `height` is a multiple of it.
struct Solution {
  std::vector<uint64_t> offsets;  // by buffer; empty if the problem fails `check`
  uint64_t height = 0;            // bytes of the arena: the largest slot end
  uint64_t lower_bound = 0;
  std::string method;    // the algorithm that found it
  bool optimal = false;  // the height meets the lower bound, or the search is exhausted
  bool fits = false;     // height <= capacity, or no capacity given
  uint64_t nodes_searched = 0;
};

struct PeakInfo {
  uint64_t bytes = 0;             // largest sum of live slots
  int64_t step = 0;               // first step with that sum
  std::vector<uint32_t> buffers;  // buffers live there, ascending
};

// Reports live ranges that end before they start, alignments of 0, misaligned or clashing fixed offsets, and sums beyond 2^62.
bool check(const Problem&, Diagnostics&);

// These require a problem that passes `check`. O(n log n).
PeakInfo peak(const Problem&);
uint64_t lower_bound(const Problem&);  // maximum of the peak, the largest slot and the ends of fixed slots

uint64_t slot_unit(const Problem&);

}  // namespace rlxc::plan
