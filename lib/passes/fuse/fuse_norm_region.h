// The elementwise nodes around a LayerNorm, RmsNorm or GroupNorm (or a fused residual norm) or around a softmax of the last axis
// become steps of one NormRegion: what is added, gated or scaled before (a gated residual, a mask), and what is scaled, shifted
// or activated after (an adaptive norm, GroupNorm and SiLU). LayerNorm and RmsNorm of rows that such norms make become one as
// well (a norm, the residual that it is added to, and the norm of the sum). Runs when elementwise nodes are regions already. Made
// when it takes no longer than what it replaces (analysis/cost.h).
#pragma once
#include "passes/pass.h"

namespace rlxc {

PassResult fuse_norm_region(Module&, PassContext&);

}  // namespace rlxc
