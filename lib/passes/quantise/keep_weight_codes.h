// Products with a weight that the model brings as integers or 8-bit floats keep it so: its kernel decodes what it reads.
//   matmul(x, dequantize(q, scale, zero_point))  ->  dequant_matmul(x, q, scale, zero_point)
// also with a Transpose or a Cast between, the scale per tensor, per axis, or blocked along the summed axis. Where x is
// dequantised as well, the product is left to quantise_contractions. What is declined is a Decision ("weight_codes"). O(nodes).
#pragma once
#include "passes/pass.h"

namespace rlxc {

PassResult keep_weight_codes(Module&, PassContext&);

}  // namespace rlxc
