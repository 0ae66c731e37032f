// Products and convolutions whose operands are both dequantised run on the integers:
//   matmul(dequantize(a), dequantize(b))  ->  q_matmul(a, b) as float * (scale of a * scale of b)
// with a scaled per tensor and b per tensor or per column (filters: per output channel), i8 or u8, and the sum of products
// provably inside i32. On the way, Dequantize sinks below reshapes, transposes, slices and gathers, and a Quantize with the scale
// and zero point of the Dequantize before it gives back the integers. Only where the target has integer kernels. What is declined
// is a Decision ("quantised_product") with its reason. O(nodes).
#pragma once
#include "passes/pass.h"

namespace rlxc {

PassResult quantise_contractions(Module&, PassContext&);

}  // namespace rlxc
