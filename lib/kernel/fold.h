// Integer and bool arithmetic of the kernel language, for constant folding and the interpreter.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "kernel/language.h"

namespace rlxc::kernel {

// Truncates to the width of the type, then sign- or zero-extends. A bool is 0 or 1.
int64_t wrap_int(DType, int64_t);

// Applies one operator to integers or bools, given as wrap_int returns them. Returns nullopt for operators without an integer
// form. `type` is the element type of the operands.
std::optional<int64_t> fold_int(ExprOp, DType type, int64_t a, int64_t b);
// Returns the value of an i64 expression over symbols.
int64_t evaluate(const Kernel&, ExprId, const std::vector<int64_t>& symbols);

}  // namespace rlxc::kernel
