// Removes nodes that no output depends on, in all graphs, and captured values that no body of their node reads. Declared inputs
// stay; parameters that nothing reads go. Impure nodes go too when nothing reads them: state is an explicit result.
// What defines a size that other nodes name (the count of a NonZero) stays with them. O(nodes).
#pragma once
#include "passes/pass.h"

namespace rlxc {

PassResult dead_code_elimination(Module&, PassContext&);

}  // namespace rlxc
