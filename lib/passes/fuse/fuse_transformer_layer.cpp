// Fuses the kernels of a layer around an attention, up to the projections of the next attention, into one launch where that is
// faster (launch_blocks.h).
#include "passes/fuse/launch_blocks.h"
#include "passes/passes.h"

namespace rlxc {

PassResult fuse_transformer_layer(Module& m, PassContext& context) {
  return fuse::form_blocks(m, context, fuse::BlockKind::Layer);
}

}  // namespace rlxc
