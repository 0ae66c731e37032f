// The attributes that convolutions and poolings of all kinds share: full-length lists with auto_pad resolved. nullopt after an
// error.
#pragma once
#include <optional>

#include "import/onnx/op.h"

namespace rlxc::onnx_import {

std::optional<ConvAttrs> conv_attrs(Op&, std::vector<Dim> spatial, std::span<const Dim> kernel);
std::optional<ConvAttrs> conv_attrs(Op&, size_t weights);  // of input 0 [N,C,...] and the weights [Co,Ci,...] at that input
std::optional<PoolAttrs> pool_attrs(Op&, std::vector<Dim> spatial, ReduceOp);

}  // namespace rlxc::onnx_import
