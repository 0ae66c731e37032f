// Forms of regular operators for sizes that only data tell.
#pragma once
#include "import/onnx/op.h"

namespace rlxc::onnx_import {

// Element `i` of a vector that is put together of parts, where its part is constant and the element a whole number.
std::optional<int64_t> constant_element(Op&, ValueId vector, int64_t i);
ValueId iota(Op&, ValueId n);  // 0..n-1, i64
// x broadcast to the `count` sizes that a vector of integers holds (numpy, both ways).
ValueId broadcast_to(Op&, ValueId x, ValueId sizes, int64_t count);
// One axis of a Slice: start and end are elements `i` of two vectors.
ValueId slice_by_data(Op&, ValueId x, int64_t axis, ValueId starts, ValueId ends, int64_t i, int64_t step);
void range_by_data(Op&);
// The first slices of a TopK of everything: as many as operand 1 says.
void top_k_by_data(Op&, TopKAttrs);
ValueId first_part(Op&, ValueId x, int64_t axis, ValueId n);  // the first n (at most all) slices along an axis
void split_by_data(Op&, int64_t axis);                        // operand 1 holds the sizes of the parts

}  // namespace rlxc::onnx_import
