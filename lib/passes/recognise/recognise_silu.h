// Raises x*sigmoid(x), x*sigmoid(a*x), x*hard_sigmoid(x), x*clamp(x+3,0,6)/6 and x*tanh(softplus(x)) to one activation.
#pragma once
#include "passes/pass.h"

namespace rlxc {

PassResult recognise_silu(Module&, PassContext&);

}  // namespace rlxc
