// specialise_params: the Params of PassOptions::specialised_params whose bytes the model carries become Constants of the same
// type, which folding may use. A name that is no Param, or one without bytes, is an error. O(nodes).
#pragma once
#include "passes/pass.h"

namespace rlxc {

PassResult specialise_params(Module&, PassContext&);

}  // namespace rlxc
