// Sums of several values as one exchange.
#pragma once
#include "ir/graph.h"

namespace rlxc {

// Limit on the bytes of an exchange: larger ones gain little, and begin later.
inline constexpr uint64_t kBucketBytes = 25 << 20;

// Joins exchanges of one kind, group and type, none of which needs the result of another, in buckets of consecutive ones:
// gradients of a data-parallel step of training, say, or parts of parameters. A bucket waits for the last operand, but not beyond
// the first reader. O(nodes + operands).
bool join_exchanges(Graph&);

}  // namespace rlxc
