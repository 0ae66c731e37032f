// Integer and bool arithmetic with the meaning that kernels give it, for constant folding and for the interpreter.
#pragma once
#include <cstdint>
#include <optional>

#include "kernel/language.h"

namespace rlxc::kernel {

// The value as the type holds it: cut to its width, then sign- or zero-extended; bool is 0 or 1.
int64_t wrap_int(DType, int64_t);

// One operation on integers or bools (operands as wrap_int gives them); nullopt for operators that have no integer form.
// `type` is the element type of the operands.
std::optional<int64_t> fold_int(ExprOp, DType type, int64_t a, int64_t b);

}  // namespace rlxc::kernel
