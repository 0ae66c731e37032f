// plan.json: how much memory a compiled module takes, where, at which step, and because of which tensors. Format:
// schemas/plan.schema.json.
#pragma once
#include "ir/lir.h"
#include "report/context.h"

namespace rlxc::report {

// The members before "graphs" speak of the main graph, whose arena contains those of its bodies. Sizes are integers of bytes, or
// expressions as text where they depend on symbols; then there is no lower bound and no peak. O(nodes + operands).
void write_plan(const LirModule&, JsonWriter&, const ReportContext&);

}  // namespace rlxc::report
