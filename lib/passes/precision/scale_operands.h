// Operands of products that are made at run time go through codes of few bits and scales (options.operand_cast): 8-bit floats
// with one scale for all, or one for each block of the summed axis (OCP Microscaling 1.0), as ordinary casts:
//   s = max(|x|) / largest,  x' = cast(cast(x / s -> f8) -> f32) * s
// With power_of_two, s is the smallest power above that, and is held as f8e8m0. A value is cast once for all products that read
// it along the same axis. Each is a PrecisionNote; what is declined is a Decision ("scaled_operand"). O(nodes).
#pragma once
#include "passes/pass.h"

namespace rlxc {

PassResult scale_operands(Module&, PassContext&);

}  // namespace rlxc
