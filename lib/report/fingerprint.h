// One number for what a compiled module computes and where it keeps its bytes.
#pragma once
#include "ir/lir.h"

namespace rlxc::report {

// A 128-bit hash of operations, operands, attributes, types, symbols, contents of constants (by bytes when they were made in
// memory, by file, offset and size when they lie on disk), schedule, phases and slots. Names of nodes and values, where nodes
// came from, and the numbers of ids do not count. Weights are not read. O(nodes + operands + inline bytes).
Digest128 fingerprint(const LirModule&);

}  // namespace rlxc::report
