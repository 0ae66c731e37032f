// Offsets of buffers whose sizes are expressions of symbols, for all values of these.
#pragma once
#include <vector>

#include "memory/liveness.h"

namespace rlxc {

struct SymbolicPlacement {
  std::vector<Dim> offsets;  // by buffer
  Dim total;
  const char* method = "";
};

// The better of two placements. Lanes: buffers whose sizes are proven to fit one after another share a lane; lanes lie one after
// another. Multiples: buffers whose sizes are constant multiples of one expression are placed as if that were 1, by the planner
// of constant sizes; what each expression takes lies one after another. O(n log n) and what the planner takes.
SymbolicPlacement place_symbolic(DimTable&, const Buffers&, uint64_t alignment);

}  // namespace rlxc
