// RmsNorm(x + residual) becomes FusedResidualRmsNorm, which gives the norm and the sum.
#pragma once
#include "passes/pass.h"

namespace rlxc {

PassResult fuse_residual_rms_norm(Module&, PassContext&);

}  // namespace rlxc
