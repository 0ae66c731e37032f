// Writes every BatchNormInference that was not folded into a convolution as x*scale + shift, where scale and shift depend on
// parameters only and are computed once, at load time. O(nodes).
#pragma once
#include "passes/pass.h"

namespace rlxc {

PassResult lower_batch_norm(Module&, PassContext&);

}  // namespace rlxc
