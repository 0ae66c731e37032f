// The packed region of each graph: what the prologue makes of weights, and what nodes keep of theirs in the order in which their
// kernels read them. Nodes that would keep the same of the same weights share it. What is read for the last time while weights
// are loaded lives no longer than that.
//
// Under a limit, nodes keep as much as fits: those that save most time of a run for each byte first
// (codegen::PrepackedBuffer::saved_ns), and among equals the first ones. The others read weights where they lie.
#pragma once
#include "memory/plan_lir.h"

namespace rlxc {

// Sets the offsets of the region, its size and the packs. `lowerings`: null if the kernels are not ours. Errors: the prologue
// alone needs more than the limit.
bool plan_packed(Module&, std::vector<GraphPlan>&, const SymbolRanges& extents, codegen::LoweringCache* lowerings,
                 const PlanOptions&, Diagnostics&);

}  // namespace rlxc
