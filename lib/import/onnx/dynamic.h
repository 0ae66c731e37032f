// Data-dependent forms of regular operators.
#pragma once
#include "import/onnx/op.h"

namespace rlxc::onnx_import {

// Returns element `i` of a vector if it is a dim, or a constant integer. The vector may be a concatenation.
std::optional<Dim> known_element(Op&, ValueId vector, int64_t i);
std::optional<int64_t> constant_element(Op&, ValueId vector, int64_t i);
ValueId iota(Op&, ValueId n);  // 0..n-1, i64
// Broadcasts x to the `count` sizes in an integer vector (numpy, both ways).
ValueId broadcast_to(Op&, ValueId x, ValueId sizes, int64_t count);
// Slices one axis. Start and end are elements `i` of two vectors.
ValueId slice_by_data(Op&, ValueId x, int64_t axis, ValueId starts, ValueId ends, int64_t i, int64_t step);
void range_by_data(Op&);
ValueId tile_by_data(Op&, ValueId x, ValueId repeats);  // one number per axis
// Pads each axis of `axes` by two elements of a vector [2*axes]: the first pads, then the last ones. `fill`: of constant mode.
ValueId pad_by_data(Op&, ValueId x, ValueId pads, const std::vector<int64_t>& axes, PadMode, ValueId fill);
// A TopK with data-dependent k, the element of operand 1; at most all slices.
void top_k_by_data(Op&, TopKAttrs);
ValueId number(Op&, int64_t);                                 // an i64 scalar
ValueId first_part(Op&, ValueId x, int64_t axis, ValueId n);  // the first n slices along an axis, at most all
void split_by_data(Op&, int64_t axis);                        // operand 1 has the sizes of the parts

// These import an operator whose axes (operand 1; Slice: 3, DFT: 2) are known at run time only.
void reduce_by_data(Op&, ReduceOp, bool keep);
void cumulate_by_data(Op&, CumAttrs);
void squeeze_by_data(Op&);
void unsqueeze_by_data(Op&);
void slice_along_data(Op&);
void transform_by_data(Op&, FftAttrs);

}  // namespace rlxc::onnx_import
