// Products of one value with several weights (Q, K and V; gate and up) become one product with the weights side by side, packed
// once when the model is loaded; the readers see views of the result. Biases are packed in the same way. Where a reader needs a
// copy of its part, the copies must cost less than the launches and reads that are saved.
#pragma once
#include "passes/pass.h"

namespace rlxc {

PassResult fuse_shared_input_matmul(Module&, PassContext&);

}  // namespace rlxc
