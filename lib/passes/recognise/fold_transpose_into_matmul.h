// A Transpose of the last two axes of an operand becomes a flag of the MatMul that reads it.
#pragma once
#include "passes/pass.h"

namespace rlxc {

PassResult fold_transpose_into_matmul(Module&, PassContext&);

}  // namespace rlxc
