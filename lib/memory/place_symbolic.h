// Offsets of buffers with symbolic sizes, valid for all values of the symbols.
#pragma once
#include <vector>

#include "memory/liveness.h"

namespace rlxc {

struct SymbolicPlacement {
  std::vector<Dim> offsets;  // by buffer
  Dim total;
  const char* method = "";
};

// Returns the smaller of two placements at `sample_size`. "lanes": buffers of disjoint liveness whose sizes are proven to fit
// share a lane, a fixed range of bytes. "multiples": sizes that are constant multiples of one expression are placed by the static
// planner in units of the expression; the groups follow each other. O(n log n) plus the static planner.
SymbolicPlacement place_symbolic(DimTable&, const Buffers&, uint64_t alignment);

}  // namespace rlxc
