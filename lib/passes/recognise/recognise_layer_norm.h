// Raises the exporters' chains of primitives to one LayerNorm node.
#pragma once
#include "passes/pass.h"

namespace rlxc {

PassResult recognise_layer_norm(Module&, PassContext&);

}  // namespace rlxc
