// up * act(gate) of the two halves of one packed value (SwiGLU, GeGLU, ReGLU) becomes one node.
#pragma once
#include "passes/pass.h"

namespace rlxc {

PassResult fuse_swiglu(Module&, PassContext&);

}  // namespace rlxc
