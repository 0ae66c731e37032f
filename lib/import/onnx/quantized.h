// Helpers of the quantized operators of several domains.
#pragma once
#include <array>

#include "import/onnx/op.h"

namespace rlxc::onnx_import {

ValueId scalar_or_vector(Op&, size_t input);  // converts a one-element vector to a scalar; invalid if absent
ValueId channels_first(Op&, ValueId x);       // [N,...,C] -> [N,C,...]
ValueId channels_last(Op&, ValueId x);        // the inverse
// Emits DynamicQuantizeLinear: u8 elements, scale, zero point.
std::array<ValueId, 3> dynamically_quantized(Op&, ValueId x);

}  // namespace rlxc::onnx_import
