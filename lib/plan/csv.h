// Buffers as text: a header row that names the columns id, lower, upper, size (any order, others are ignored), then one buffer a
// line, live in lower <= step < upper. The format of the MiniMalloc benchmarks (Moffitt, ASPLOS 2023).
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "plan/problem.h"

namespace rlxc::plan {

struct BufferTable {
  std::vector<std::string> ids;
  Problem problem;
};

// Alignment is 1 unless a column `alignment` says otherwise. Every malformed line is reported; false if there was any.
bool read_csv(std::string_view text, BufferTable*, Diagnostics&);

// The same columns and `offset`.
std::string write_csv(const BufferTable&, const std::vector<uint64_t>& offsets);

}  // namespace rlxc::plan
