// Checks a placement from first principles. Shares no code with the solver.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "plan/problem.h"

namespace rlxc::plan {

enum class FindingKind : uint8_t { Missing, Misaligned, Moved, OutsideArena, Overlap };

struct Finding {
  FindingKind kind;
  uint32_t buffer;
  uint32_t other;    // second buffer of an overlap, otherwise equal to `buffer`
  std::string text;  // one line with offsets, sizes and live ranges
};

// Checks that every offset is present, aligned and equal to the fixed one, that slots end within `arena` bytes, and that no two
// live buffers overlap. Stops after `limit` findings. O(n log n), plus a step per reported pair.
std::vector<Finding> validate(const Problem&, const std::vector<uint64_t>& offsets, uint64_t arena, size_t limit = 100);

}  // namespace rlxc::plan
