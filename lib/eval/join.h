// Concatenates, stacks and slices tensors along an axis.
#pragma once
#include "eval/context.h"

namespace rlxc::eval {

// Concatenates the parts along `axis`, or stacks them along a new axis. Other dims must agree.
bool join(Context&, std::span<const TensorData* const> parts, int64_t axis, bool new_axis, TensorData* out);

// Copies elements first .. first+count-1 of an axis.
bool take(Context&, const TensorData&, int64_t axis, int64_t first, int64_t count, TensorData* out);

}  // namespace rlxc::eval
