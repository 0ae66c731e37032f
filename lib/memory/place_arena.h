// Offsets for the buffers of a region: of constant sizes, of sizes that have a bound, or of symbolic ones.
#pragma once
#include <optional>
#include <string>

#include "memory/liveness.h"
#include "plan/problem.h"
#include "support/diagnostics.h"

namespace rlxc {

struct Placed {
  std::vector<Dim> offsets;  // by buffer
  Dim total;
  std::string method;
  bool is_static = false;
  uint64_t lower_bound = 0;
  plan::PeakInfo peak;
};

// With constant sizes (or, with `ranges`, upper bounds of them) the planner finds the offsets. Otherwise buffers whose sizes are
// proven to fit one after another share a lane, and lane offsets are sums of sizes, so the plan holds for every binding.
// Errors: sizes that overflow, a plan that the validator refuses (if `verify`).
// `block`: no buffer crosses a multiple of so many bytes, unless one is larger; 0: no such limit. Symbolic plans ignore it.
std::optional<Placed> place_buffers(DimTable&, const Buffers&, uint64_t alignment, uint64_t block, const SymbolRanges& ranges,
                                    bool verify, Diagnostics&);

}  // namespace rlxc
