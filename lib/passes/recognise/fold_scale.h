// A constant factor a column of a product, or a channel of a convolution (layer scale, an affine layer after a convolution), goes
// into the weights and the bias, which are computed once when the model is loaded.
#pragma once
#include "passes/pass.h"

namespace rlxc {

PassResult fold_scale(Module&, PassContext&);

}  // namespace rlxc
