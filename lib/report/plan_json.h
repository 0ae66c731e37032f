// plan.json: memory of a compiled module: sizes, offsets, the peak step and the tensors live there. Format:
// schemas/plan.schema.json.
#pragma once
#include "ir/lir.h"
#include "report/context.h"

namespace rlxc::report {

// The members before "graphs" refer to the main graph, whose arena contains those of its bodies. Sizes are bytes, or expressions
// as text if they depend on symbols; then lower bound and peak are omitted. O(nodes + operands).
void write_plan(const LirModule&, JsonWriter&, const ReportContext&);

}  // namespace rlxc::report
