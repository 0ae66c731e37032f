// Conv or ConvTranspose with what follows it in registers: a residual of the same shape and an activation that the target has as
// epilogue.
#pragma once
#include "passes/pass.h"

namespace rlxc {

PassResult fuse_conv_bias_act(Module&, PassContext&);

}  // namespace rlxc
