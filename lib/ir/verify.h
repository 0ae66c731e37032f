// Verifies the structure of graphs, then types: the declared result types of each node must match its type rule. Recurses into
// bodies. Reports all errors. O(nodes + operands).
#pragma once
#include "ir/graph.h"
#include "support/diagnostics.h"

namespace rlxc {

bool verify(const Module&, Diagnostics&);

// Verifies limits only: at most kMaxRank axes, and at most kMaxTensorBytes for the product of the static dims. O(results).
inline constexpr int kMaxRank = 64;
inline constexpr uint64_t kMaxTensorBytes = uint64_t{1} << 47;  // address space of a process
bool verify_sizes(const Module&, Diagnostics&);

}  // namespace rlxc
