// The attributes that convolutions of all kinds share.
#pragma once
#include <optional>

#include "import/onnx/op.h"

namespace rlxc::onnx_import {

// Full-length lists with auto_pad resolved; `weights` is the operand that holds the kernel. nullopt after an error.
std::optional<ConvAttrs> conv_attrs(Op&, size_t weights);

}  // namespace rlxc::onnx_import
