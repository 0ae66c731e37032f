// From an optimised module to LIR: views, phases, lives, in-place reuse and offsets of every graph. The planner (lib/plan) finds
// the offsets of static graphs. A graph with symbolic sizes gets a plan of lanes: buffers whose sizes are proven to fit one
// after another share a lane, and lane offsets are sums of the symbolic sizes before, so the plan holds for every binding.
// A value with sizes that only a run tells has room for the largest ones.
#pragma once
#include <optional>

#include "ir/lir.h"
#include "support/diagnostics.h"

namespace rlxc {

struct PlanOptions {
  uint64_t alignment = 64;  // of every slot; a power of two
  bool in_place = true;
  bool verify = false;      // run the independent validator
  DimBindings bounds = {};  // of sizes that only a run tells, where they cannot be derived
};

// Compacts all graphs, so node and value ids change. Errors: sizes that overflow, a plan that the validator refuses.
std::optional<LirModule> plan_lir(std::unique_ptr<Module>, const PlanOptions&, Diagnostics&);

}  // namespace rlxc
