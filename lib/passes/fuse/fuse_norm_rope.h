// fuse_norm_rope: Rope of an RmsNorm over heads (of queries and keys) becomes one Rope that takes the scale of the norm.
// O(nodes).
#pragma once
#include "passes/pass.h"

namespace rlxc {

PassResult fuse_norm_rope(Module&, PassContext&);

}  // namespace rlxc
