// A module as JSON graph, as read by `rlxc compile graph.json`. Format: schemas/graph.schema.json.
#pragma once
#include "ir/graph.h"
#include "report/context.h"

namespace rlxc::report {

// Writes nodes in execution order, one per line. Reading it back (import/json) gives the same module with values and nodes
// renumbered in execution order. Large contents are referred to by file, offset and size. O(nodes + operands).
void write_graph(const Module&, JsonWriter&, const ReportContext&);

}  // namespace rlxc::report
