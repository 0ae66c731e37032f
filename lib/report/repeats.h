// Runs of equal parts in a sequence: the repeated layers of a model.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace rlxc::report {

struct Repeat {
  size_t start = 0, length = 0, count = 0;  // items start .. start + length * count - 1
};

// Finds disjoint runs in order of their start: each time the one that leaves out most items if one part stands for all, of at
// least `least` items, with parts of 2 to 400. O(items * 400) per run found.
std::vector<Repeat> repeats(std::span<const uint32_t> items, size_t least);

}  // namespace rlxc::report
