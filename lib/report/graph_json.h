// A module as a JSON graph: what `rlxc compile graph.json` reads. Format and members: schemas/graph.schema.json.
#pragma once
#include "ir/graph.h"
#include "report/context.h"

namespace rlxc::report {

// Nodes in execution order, one a line. Reading it back (import/json) gives the same module, up to the numbers of values and
// nodes, which then count from 0 in execution order. Large contents are named by file, offset and size. O(nodes + operands).
void write_graph(const Module&, JsonWriter&, const ReportContext&);

}  // namespace rlxc::report
