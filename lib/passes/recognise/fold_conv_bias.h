// A constant padding of the spatial axes becomes padding of the convolution, and a per-channel weight added to a convolution its
// bias.
#pragma once
#include "passes/pass.h"

namespace rlxc {

PassResult fold_conv_bias(Module&, PassContext&);

}  // namespace rlxc
