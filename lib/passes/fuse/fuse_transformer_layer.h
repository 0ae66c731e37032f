// All that a layer around an attention computes, up to the products of the next attention: one launch where that is faster
// (launch_blocks.h).
#pragma once
#include "passes/pass.h"

namespace rlxc {

PassResult fuse_transformer_layer(Module&, PassContext&);

}  // namespace rlxc
