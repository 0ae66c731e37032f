// Broadcasts that depend on runtime sizes. Two symbolic dims may be equal, or one of them may be 1; a dim that meets 0 is 0 or 1.
// IR ops broadcast only equal dims or a constant 1; other operands are first gathered to the result's size.
#pragma once
#include "import/onnx/op.h"

namespace rlxc::onnx_import {

// Returns the operands with broadcastable dims; the last `own` axes are unchanged. Records the equalities that the dims must
// satisfy. Invalid operands stay invalid. O(axes x operands).
std::vector<ValueId> broadcast_operands(Op&, std::vector<ValueId> operands, size_t own = 0);
ValueId broadcast(Op&, OpKind, std::vector<ValueId> operands);  // an elementwise op on them
// Returns the dim of a broadcast that depends on runtime sizes; nullopt if the dims are equal, must be equal, or one is 1.
std::optional<Dim> open_broadcast(Op&, Dim, Dim);
void assume_broadcast(DimTable&, Dim, Dim);  // records that two dims are equal, or one of them is 1
// Repeats axis `axis` of x to `to` if its size is 1 at run time.
ValueId repeat_if_one(Op&, ValueId x, int64_t axis, Dim to);

}  // namespace rlxc::onnx_import
