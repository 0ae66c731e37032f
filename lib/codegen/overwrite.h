// Which operand's bytes a result may take over.
#pragma once
#include <cstddef>

#include "ir/graph.h"

namespace rlxc::codegen {

// May the result lie where the operand lies, if nothing needs that any more and both have one shape and width? The kernels then
// load no element of the operand once they have stored to the result at its index, which the interpreter of kernels checks. O(1).
bool may_overwrite(const Graph&, NodeId, size_t result, size_t operand);

}  // namespace rlxc::codegen
