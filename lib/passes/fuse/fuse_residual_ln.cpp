// Fuses LayerNorm(x + residual) into FusedResidualLN, which returns the norm and the sum.
#include "passes/fuse/residual_norm.h"
#include "passes/passes.h"

namespace rlxc {

PassResult fuse_residual_ln(Module& m, PassContext& ctx) {
  return fuse_residual_norm(m, ctx, OpKind::LayerNorm, OpKind::FusedResidualLN, "residual_ln");
}

}  // namespace rlxc
