// Checks a plan against the problem from first principles. It shares no code with the solver.
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
  uint32_t other;    // the second buffer of an overlap; otherwise the same as `buffer`
  std::string text;  // one line with offsets, sizes and lives
};

// Every offset present, aligned, equal to the fixed one, offset + size within `arena` bytes, and no byte that two live buffers
// share. Stops after `limit` findings. O(n log n) for a clean plan; each overlapping pair that is reported costs one step more.
std::vector<Finding> validate(const Problem&, const std::vector<uint64_t>& offsets, uint64_t arena, size_t limit = 100);

}  // namespace rlxc::plan
