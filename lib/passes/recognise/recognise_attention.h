// Raises MatMul, scale, mask, Softmax, MatMul to one Attention: scale on either side or after, soft-cap, additive, boolean and
// causal masks, grouped heads repeated by Expand. Transposes and reshapes of q, k, v and of the result become layouts.
#pragma once
#include "passes/pass.h"

namespace rlxc {

PassResult recognise_attention(Module&, PassContext&);

}  // namespace rlxc
