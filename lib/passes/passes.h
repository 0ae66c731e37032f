// Declarations of all passes: one function for each line of passes.def. What a pass does is said at the top of its source file.
#pragma once
#include "passes/pass.h"

namespace rlxc {

#define PASS(name, group, doc) PassResult name(Module&, PassContext&);
#include "passes/passes.def"
#undef PASS

}  // namespace rlxc
