// Raises the exporters' chains of primitives to one RmsNorm node.
#pragma once
#include "passes/pass.h"

namespace rlxc {

PassResult recognise_rms_norm(Module&, PassContext&);

}  // namespace rlxc
