// Lowers the blocks of the HIR to tensor operations; the module is at the MIR afterwards. Under FusionPolicy::Fusable (the
// default) blocks become primitive chains, that the fusion passes see whole; under Direct they become fused operations at once,
// where there is one. Every new node carries the block's name or label among its sources. Sizes may be symbolic. O(nodes).
#pragma once
#include "passes/pass.h"

namespace rlxc {

PassResult lower_hir(Module&, PassContext&);

}  // namespace rlxc
