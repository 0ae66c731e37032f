// A Loop that appends one tensor per iteration to a sequence, which is concatenated after the loop (how exporters write "collect
// the outputs of all steps"), gives the stacked tensors as a scan output instead: kernels need no sequences then. A loop of a
// constant number of iterations also gets that number as size of its scan outputs. O(nodes).
#pragma once
#include "passes/pass.h"

namespace rlxc {

PassResult lower_sequence_loops(Module&, PassContext&);

}  // namespace rlxc
