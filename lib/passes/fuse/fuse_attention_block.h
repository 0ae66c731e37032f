// Products that make queries, keys and values, attention, and the product of its result: one launch where that is faster
// (launch_blocks.h), and where the attention is not part of the launch of a whole layer.
#pragma once
#include "passes/pass.h"

namespace rlxc {

PassResult fuse_attention_block(Module&, PassContext&);

}  // namespace rlxc
