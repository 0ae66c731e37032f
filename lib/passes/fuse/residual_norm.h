// Shared by fuse_residual_ln and fuse_residual_rms_norm: norm(x + residual) with two results, so that the sum may have further
// users (the next residual of a pre-norm block).
#pragma once
#include "passes/pass.h"

namespace rlxc {

PassResult fuse_residual_norm(Module&, PassContext&, OpKind norm, OpKind fused, std::string_view pattern);

}  // namespace rlxc
