// Parts that quantised operators of several domains share.
#pragma once
#include <array>

#include "import/onnx/op.h"

namespace rlxc::onnx_import {

ValueId scalar_or_vector(Op&, size_t input);  // a vector of one element becomes a scalar; invalid when absent
// What DynamicQuantizeLinear makes of a value: u8 elements, scale, zero point.
std::array<ValueId, 3> dynamically_quantised(Op&, ValueId x);

}  // namespace rlxc::onnx_import
