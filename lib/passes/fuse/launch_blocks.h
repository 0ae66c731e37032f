// Runs blocks of a transformer in one launch. If the values are small, launching the kernels takes longer than their work; then
// one workgroup runs them in sequence, since only threads of one workgroup can synchronise. The nodes share a launch
// (Graph::launch).
// Decides per attention: formed if the target's kernels can be fused and one unit is not slower than all units with separate
// launches (analysis/cost.h); otherwise declined ("cost", "no_kernel", "dynamic_shape", "kernel_limit").
// PassOptions::fuse_attn_threshold limits the number of rows instead of the cost ("threshold"). O(nodes), plus the kernels of
// profitable blocks.
#pragma once
#include "passes/pass.h"

namespace rlxc::fuse {

enum class BlockKind : uint8_t {
  Attention,  // from the matmuls of queries, keys and values to the matmul of the result
  Layer       // up to the projections of the next attention, or after the last matmul of the graph
};

PassResult form_blocks(Module&, PassContext&, BlockKind);

}  // namespace rlxc::fuse
