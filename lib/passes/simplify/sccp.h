// Conditional constant propagation: constants that a body captures are known inside it, and an If whose condition is a constant
// is replaced by the body that it chooses, at any depth. (Wegman, Zadeck: Constant Propagation with Conditional Branches, 1991;
// where values flow through operands only, the lattice is the graph itself.) O(nodes).
#pragma once
#include "passes/pass.h"

namespace rlxc {

PassResult sccp(Module&, PassContext&);

}  // namespace rlxc
