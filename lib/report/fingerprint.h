// Fingerprint of a compiled module.
#pragma once
#include "ir/lir.h"

namespace rlxc::report {

// A 128-bit hash of ops, operands, attributes, types, symbols, constants (by bytes if in memory; by file, offset and size if on
// disk), schedule, phases and slots. Excludes names, provenance and ids. Does not read weights. O(nodes + operands + inline
// bytes).
Digest128 fingerprint(const LirModule&);

}  // namespace rlxc::report
