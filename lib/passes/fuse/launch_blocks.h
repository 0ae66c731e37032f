// Whole blocks of a transformer as one launch. Where the values of a block are small, starting its kernels takes longer than
// their work: one group of lanes then does the work of all of them, one after another, since only the lanes of one group can wait
// for each other. Nodes stay what they are; they share a launch (Graph::launch).
//
// Each attention is decided about: formed where the target's kernels can be joined and the times of analysis/cost.h say that one
// unit needs no longer than all units and the launches apart; else declined ("cost", "no_kernel", "dynamic_shape",
// "kernel_limit"). The detail is both times. With PassOptions::fuse_attn_threshold the number of rows decides in their place
// ("threshold"). O(nodes), and the kernels of what pays.
#pragma once
#include "passes/pass.h"

namespace rlxc::fuse {

enum class BlockKind : uint8_t {
  Attention,  // from the matmuls that make queries, keys and values to the one that reads the result
  Layer       // on to where the matmuls of the next attention begin, or after the last matmul of the graph
};

PassResult form_blocks(Module&, PassContext&, BlockKind);

}  // namespace rlxc::fuse
