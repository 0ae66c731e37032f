// Stable order of many steps. Live ranges of a schedule are nearly sorted and close together, so a radix sort beats comparisons.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace rlxc::plan {

// Returns the indices of `steps` in ascending order of steps, then of indices. O(n * bits of the range / 11).
std::vector<uint32_t> order_by_step(std::span<const int64_t> steps);

}  // namespace rlxc::plan
