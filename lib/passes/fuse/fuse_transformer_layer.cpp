#include "passes/fuse/fuse_transformer_layer.h"

#include "passes/fuse/launch_blocks.h"

namespace rlxc {

PassResult fuse_transformer_layer(Module& m, PassContext& context) {
  return fuse::form_blocks(m, context, fuse::BlockKind::Layer);
}

}  // namespace rlxc
