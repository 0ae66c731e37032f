// MatMul with what follows it in registers: a bias row, a residual of the same shape, an activation that the target has as
// epilogue.
#pragma once
#include "passes/pass.h"

namespace rlxc {

PassResult fuse_matmul_bias_act(Module&, PassContext&);

}  // namespace rlxc
