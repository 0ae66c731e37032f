// Broadcasts whose form only a run decides. Two sizes that are not known to be equal may be equal, or one of them may be 1. The
// IR broadcasts sizes that are equal or 1, so an operand that may have to be repeated is gathered to the size of the result
// first.
#pragma once
#include "import/onnx/op.h"

namespace rlxc::onnx_import {

// The operands with sizes that broadcast; those of the last `own` axes are left as they are. Records what the sizes must satisfy.
// Invalid operands stay invalid. O(axes x operands).
std::vector<ValueId> broadcast_operands(Op&, std::vector<ValueId> operands, size_t own = 0);
ValueId broadcast(Op&, OpKind, std::vector<ValueId> operands);  // an elementwise operation on them
// The size that two sizes broadcast to where a run decides; nothing where they are equal or 1, or have to be equal.
std::optional<Dim> open_broadcast(Op&, Dim, Dim);
void assume_broadcast(DimTable&, Dim, Dim);  // records that two sizes are equal, or one of them is 1
// Axis `axis` of x repeated to `to` where its size is 1 in a run, else as it is.
ValueId repeat_if_one(Op&, ValueId x, int64_t axis, Dim to);

}  // namespace rlxc::onnx_import
