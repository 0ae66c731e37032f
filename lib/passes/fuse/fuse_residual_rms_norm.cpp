// Fuses RmsNorm(x + residual) into FusedResidualRmsNorm, which returns the norm and the sum.
#include "passes/fuse/residual_norm.h"
#include "passes/passes.h"

namespace rlxc {

PassResult fuse_residual_rms_norm(Module& m, PassContext& ctx) {
  return fuse_residual_norm(m, ctx, OpKind::RmsNorm, OpKind::FusedResidualRmsNorm, "residual_rms_norm");
}

}  // namespace rlxc
