// Runs the kernels of a transformer block in one launch where that is not slower (analysis/cost.h): if the values are small,
// launches take longer than the work. One workgroup runs all kernels, since only threads of a workgroup can synchronise. The
// nodes share a launch (Graph::launch). Decides per attention; declined for "cost", "threshold" (fuse_attn_threshold),
// "no_kernel", "dynamic_shape" or "kernel_limit". O(nodes), plus the kernels of profitable blocks.
#pragma once
#include "passes/pass.h"

namespace rlxc::fuse {

enum class BlockKind : uint8_t {
  Attention,  // from the matmuls of queries, keys and values to the matmul of the result
  Layer       // up to the projections of the next attention, or after the last matmul of the graph
};

PassResult form_blocks(Module&, PassContext&, BlockKind);

}  // namespace rlxc::fuse
