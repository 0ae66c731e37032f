// Matmuls that make queries, keys and values, attention, and the matmul of its result: one launch where that is faster
// (launch_blocks.h), and where the attention is not part of the launch of a whole layer.
#include "passes/fuse/launch_blocks.h"
#include "passes/passes.h"

namespace rlxc {

PassResult fuse_attention_block(Module& m, PassContext& context) {
  return fuse::form_blocks(m, context, fuse::BlockKind::Attention);
}

}  // namespace rlxc
