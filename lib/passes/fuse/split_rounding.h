// Takes the rounding to 8 bits off the end of a FusedQMatMul, so that it can be merged with others of the same operand whose
// results stay floats. fuse_integer_results gives it back to the merged matmul.
#pragma once
#include "ir/graph.h"

namespace rlxc::fuse {

// Replaces matmuls that round their results by matmuls of floats and regions, where another one of the same operand gives floats
// and their steps can be aligned. O(nodes * steps^2).
void split_roundings(Graph&);

}  // namespace rlxc::fuse
