// Is a graph what every room relies on? Structure first, then types: each node's declared result types must be those that its
// rule infers. Recursive over sub-graphs. All findings are reported. O(nodes + operands).
#pragma once
#include "ir/graph.h"
#include "support/diagnostics.h"

namespace rlxc {

bool verify(const Module&, Diagnostics&);

// The part of it that a limit asks for: every tensor has at most kMaxRank axes, and kMaxTensorBytes where its symbols are 1.
// O(results).
inline constexpr int kMaxRank = 64;
inline constexpr uint64_t kMaxTensorBytes = uint64_t{1} << 47;  // what a process can address
bool verify_sizes(const Module&, Diagnostics&);

}  // namespace rlxc
