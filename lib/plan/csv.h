// Buffers as CSV text: a header row names the columns id, lower, upper, size (in any order; others are ignored), then one buffer
// per line, live in lower <= step < upper. This is the format of the MiniMalloc benchmarks (Moffitt, ASPLOS 2023).
#pragma once
#include <functional>
#include <string_view>
#include <vector>

#include "plan/problem.h"

namespace rlxc::plan {

struct BufferTable {
  std::vector<std::string_view> ids;  // views into the text that was read
  Problem problem;
};

// Alignment is 1 without a column `alignment`. Reports every malformed line; returns false if there is one.
bool read_csv(std::string_view text, BufferTable*, Diagnostics&);

// Writes the same columns and `offset`, a piece of the text at a time.
void write_csv(const BufferTable&, const std::vector<uint64_t>& offsets, const std::function<void(std::string_view)>& write);

}  // namespace rlxc::plan
