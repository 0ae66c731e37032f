// Raises x*0.5*(1+erf(x/sqrt(2))) and the tanh form to Gelu and GeluApprox, in any order of the factors.
#pragma once
#include "passes/pass.h"

namespace rlxc {

PassResult recognise_gelu(Module&, PassContext&);

}  // namespace rlxc
