// fuse_matmul_swiglu: FusedSwiGLU(x*w + bias) becomes FusedMatMulSwiGLU(x, w, bias), or a gated DequantMatMul where w is kept as
// codes: the packed product, twice the size of the result, is never written. Reshapes between them that keep rows whole follow
// the gate. Declined when the product is read elsewhere, or what is added to it is no bias. O(nodes).
#pragma once
#include "passes/pass.h"

namespace rlxc {

PassResult fuse_matmul_swiglu(Module&, PassContext&);

}  // namespace rlxc
