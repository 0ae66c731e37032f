// promote_params: the Params of PassOptions::promoted_params become Inputs of the same name and type, after the declared ones, in
// the order of the list. A name that is no Param is an error. O(nodes).
#pragma once
#include "passes/pass.h"

namespace rlxc {

PassResult promote_params(Module&, PassContext&);

}  // namespace rlxc
