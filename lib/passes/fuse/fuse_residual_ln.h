// LayerNorm(x + residual) becomes FusedResidualLN, which gives the norm and the sum.
#pragma once
#include "passes/pass.h"

namespace rlxc {

PassResult fuse_residual_ln(Module&, PassContext&);

}  // namespace rlxc
