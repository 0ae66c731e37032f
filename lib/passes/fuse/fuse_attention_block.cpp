// Fuses an attention with its projections: the matmuls of queries, keys and values, and the matmul of the result, in one launch
// where that is faster (launch_blocks.h). Skips attentions that are part of a fused layer.
#include "passes/fuse/launch_blocks.h"
#include "passes/passes.h"

namespace rlxc {

PassResult fuse_attention_block(Module& m, PassContext& context) {
  return fuse::form_blocks(m, context, fuse::BlockKind::Attention);
}

}  // namespace rlxc
