// unroll_loops: a Loop whose trip count is known is written out, one copy of the body an iteration, when that takes at most
// PassOptions::unroll_max_nodes nodes; scans become a Concat. Loops within the body stay loops, and sizes
// that data tell in each iteration stay with it: then nothing is unrolled.
// O(nodes made).
#pragma once
#include "passes/pass.h"

namespace rlxc {

PassResult unroll_loops(Module&, PassContext&);

}  // namespace rlxc
