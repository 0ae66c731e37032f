// From an optimised module to LIR: layouts, phases, lives, in-place reuse and offsets of every graph. The planner (lib/plan)
// finds the offsets of static graphs. A graph with symbolic sizes gets a plan of lanes: buffers whose sizes are proven to fit one
// after another share a lane, and lane offsets are sums of the symbolic sizes before, so the plan holds for every binding; with
// ranges of the symbols it is planned like a static one, at the largest sizes.
// A value with data-dependent dims has room for the largest ones.
#pragma once
#include <optional>

#include "codegen/lowering_cache.h"
#include "ir/lir.h"
#include "options/options.h"
#include "support/diagnostics.h"

namespace rlxc {

// Facts of the target and the model that planning reads beside the options.
struct PlanInputs {
  std::vector<State> states = {};
  std::optional<codegen::CapabilityRow> kernels = codegen::CapabilityRow();  // those that will run; none: not ours
  codegen::LoweringCache* lowerings = nullptr;  // of the module for `kernels`; null: made here, and not kept
};

// Compacts all graphs, so node and value ids change. Errors: sizes that overflow, a plan that the validator refuses, an arena of
// constant size above `max_arena`, a prologue that makes more than `max_packed`.
std::optional<LirModule> plan_lir(std::unique_ptr<Module>, const PlanOptions&, Diagnostics&, const PlanInputs& = {});

}  // namespace rlxc
