// Is a graph what every room relies on? Structure first, then types: each node's declared result types must be those that its
// rule infers. Recursive over sub-graphs. All findings are reported. O(nodes + operands).
#pragma once
#include "ir/graph.h"
#include "support/diagnostics.h"

namespace rlxc {

bool verify(const Module&, Diagnostics&);

}  // namespace rlxc
