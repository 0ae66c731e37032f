// BatchNorm after a convolution goes into its weights and bias, which are computed once when the model is loaded; any other one
// becomes a scale and a shift of which the factors are computed once.
#pragma once
#include "passes/pass.h"

namespace rlxc {

PassResult fold_batch_norm(Module&, PassContext&);

}  // namespace rlxc
