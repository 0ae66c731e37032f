// Writes every DotGeneral as transposes, reshapes and one MatMul, whatever its batch, contracting and free axes are. Axes that
// are in place already cost nothing; two that only swap become a flag of the product. O(nodes).
#pragma once
#include "passes/pass.h"

namespace rlxc {

PassResult lower_dot_general(Module&, PassContext&);

}  // namespace rlxc
