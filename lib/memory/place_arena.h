// Assigns offsets to the buffers of a region, of constant, bounded or symbolic sizes.
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

// Constant sizes, and upper bounds from `ranges`, are placed by the static planner; other sizes by place_symbolic, valid for
// every binding. `block`: no buffer crosses a multiple of this many bytes unless it is larger than a block; 0: no limit; symbolic
// plans ignore it. Errors: sizes that overflow, a plan rejected by the validator (if `verify`).
std::optional<Placed> place_buffers(DimTable&, const Buffers&, uint64_t alignment, uint64_t block, const SymbolRanges& ranges,
                                    bool verify, Diagnostics&);

}  // namespace rlxc
