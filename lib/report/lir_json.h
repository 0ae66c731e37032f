// lir.json: the compiled module for other programs. Format and members: schemas/lir.schema.json.
#pragma once
#include "ir/lir.h"
#include "report/context.h"

namespace rlxc::report {

// One node, one buffer and one constant a line, by id. Sizes are integers of bytes, or expressions as text where they depend on
// symbols. Large constants are named by file, offset and size. The module needs a plan for every graph. O(nodes + operands).
void write_lir(const LirModule&, JsonWriter&, const ReportContext&);

}  // namespace rlxc::report
