// Values share bytes: results overwrite operands, parts of concatenations are made in their place, states have one buffer. This
// checks what a plan made of it.
#pragma once
#include "ir/lir.h"
#include "support/diagnostics.h"

namespace rlxc {

// Checks, apart from the planner, that bytes have one owner, and that nothing reads a value of the arena or of a state after
// another was written to its bytes. Values whose offset or size depends on symbols count as overlapping if their offsets are the
// same. False with Code::PlanInvalid. O(values x values that are live at once).
bool verify_contents(const Graph&, const GraphPlan&, Diagnostics&);

}  // namespace rlxc
