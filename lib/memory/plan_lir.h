// From an optimised module to LIR: views, phases, lives, in-place reuse and offsets of every graph. The planner (lib/plan) finds
// the offsets of static graphs. A graph with symbolic sizes gets a plan of lanes: buffers whose sizes are proven to fit one
// after another share a lane, and lane offsets are sums of the symbolic sizes before, so the plan holds for every binding; with
// ranges of the symbols it is planned like a static one, at the largest sizes.
// A value with sizes that only a run tells has room for the largest ones.
#pragma once
#include <optional>

#include "codegen/capability.h"
#include "ir/lir.h"
#include "support/diagnostics.h"

namespace rlxc {

struct PlanOptions {
  uint64_t alignment = 64;    // of every slot; a power of two
  bool in_place = true;       // results overwrite operands that die
  bool join_parts = true;     // operands of concatenations are made in place
  bool reorder = true;        // another order of the nodes, where its arena is smaller
  uint64_t max_binding = 0;   // bytes that a device binds at a time: no slot crosses a multiple of that. 0: no limit
  int64_t element_bytes = 1;  // that an element takes at least, but of weights: 4 where a runtime keeps all else in 32-bit words
  uint64_t max_arena = 0;     // bytes; above it, cheap values are computed again instead of being kept. 0: no limit
  SymbolRanges ranges = {};   // of symbols, constants: sizes are planned at the most they can be
  std::optional<uint64_t> max_packed = {};  // bytes of the packed region; above it, weights are read where they lie
  std::optional<codegen::CapabilityRow> kernels = codegen::CapabilityRow();  // those that will run; none: not ours
  bool verify = false;                                                       // run the independent validator
  DimBindings bounds = {};  // of sizes that only a run tells, where they cannot be derived
  std::vector<State> states = {};
};

// Compacts all graphs, so node and value ids change. Errors: sizes that overflow, a plan that the validator refuses, an arena of
// constant size above `max_arena`, a prologue that makes more than `max_packed`.
std::optional<LirModule> plan_lir(std::unique_ptr<Module>, const PlanOptions&, Diagnostics&);

}  // namespace rlxc
