// fuse_matmul_swiglu: FusedSwiGLU(x*w) becomes FusedMatMulSwiGLU(x, w), or a gated DequantMatMul where w is kept as codes: the
// packed product, twice the size of the result, is never written. Declined when the product is read elsewhere or takes a bias.
// O(nodes).
#pragma once
#include "passes/pass.h"

namespace rlxc {

PassResult fuse_matmul_swiglu(Module&, PassContext&);

}  // namespace rlxc
