// Joining tensors along an axis, and taking them apart.
#pragma once
#include "eval/context.h"

namespace rlxc::eval {

// The parts one after another along `axis`, or stacked along a new axis there. Their sizes must agree (off the axis).
bool join(Context&, std::span<const TensorData* const> parts, int64_t axis, bool new_axis, TensorData* out);

// Elements first .. first+count-1 of an axis.
bool take(Context&, const TensorData&, int64_t axis, int64_t first, int64_t count, TensorData* out);

}  // namespace rlxc::eval
