// Bodies of control flow that may run where the program would not run them.
#pragma once
#include "ir/graph.h"

namespace rlxc {

// Returns whether the body has dims that none of its inputs has. They belong to one run, so copies would share a name.
bool makes_sizes(const Graph& body);

// Returns whether a run whose results are discarded has no effect: it ends, works on tensors of known sizes, reads no element at
// an index that may be out of range, and divides no integers.
bool can_speculate(const Graph& body);

}  // namespace rlxc
