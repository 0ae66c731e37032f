#include "passes/fuse/fuse_residual_ln.h"

#include "passes/fuse/residual_norm.h"

namespace rlxc {

PassResult fuse_residual_ln(Module& m, PassContext& ctx) {
  return fuse_residual_norm(m, ctx, OpKind::LayerNorm, OpKind::FusedResidualLN, "residual_ln");
}

}  // namespace rlxc
