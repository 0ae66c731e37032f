// lir.json: the compiled module in machine-readable form. Format: schemas/lir.schema.json.
#pragma once
#include "ir/lir.h"
#include "report/context.h"

namespace rlxc::report {

// Writes one node, buffer and constant per line, by id. Sizes are bytes, or expressions as text if they depend on symbols. Large
// constants are referred to by file, offset and size. Requires a plan for every graph. O(nodes + operands).
void write_lir(const LirModule&, JsonWriter&, const ReportContext&);

}  // namespace rlxc::report
