// Expands the operations that the target has no kernel for into simpler ones, again and again until only operations with a
// kernel are left. A node is expanded for its own kind only: what the target can run stays whole. What has neither a kernel nor
// an expansion is an error (Code::UnsupportedOnTarget) that names all such nodes, grouped by kind. O(nodes made).
#pragma once
#include "passes/pass.h"

namespace rlxc {

PassResult decompose(Module&, PassContext&);

}  // namespace rlxc
