#include "passes/fuse/fuse_attention_block.h"

#include "passes/fuse/launch_blocks.h"

namespace rlxc {

PassResult fuse_attention_block(Module& m, PassContext& context) {
  return fuse::form_blocks(m, context, fuse::BlockKind::Attention);
}

}  // namespace rlxc
