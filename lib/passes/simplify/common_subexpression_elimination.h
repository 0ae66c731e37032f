// Merges nodes that compute the same: same operation, attributes, types and operands, where operands of commutative operations
// may be swapped; and constants of the same content. Impure nodes, nodes with bodies and parameters are never merged. The first
// of the equal nodes stays, with its name. A concatenation that begins with all that an earlier one joins reads that one.
// O(nodes) expected.
#pragma once
#include "passes/pass.h"

namespace rlxc {

PassResult common_subexpression_elimination(Module&, PassContext&);

}  // namespace rlxc
