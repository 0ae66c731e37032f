// The attributes that convolutions and poolings of all kinds share: full-length lists with auto_pad resolved. Padding that
// depends on open sizes is in `open`, for the spatial axes, and not in the attributes; without `open` it is an error. nullopt
// after an error.
#pragma once
#include <optional>

#include "import/onnx/op.h"

namespace rlxc::onnx_import {

std::optional<ConvAttrs> conv_attrs(Op&, std::vector<Dim> spatial, std::span<const Dim> kernel, PadAttrs* open = nullptr);
// Reads input 0 [N,C,...] and the weights [Co,Ci,...] at that input.
std::optional<ConvAttrs> conv_attrs(Op&, size_t weights, PadAttrs* open = nullptr);
std::optional<PoolAttrs> pool_attrs(Op&, std::vector<Dim> spatial, ReduceOp, PadAttrs* open = nullptr);
// x [N,C,...] with that padding; without an entry, as it is. `fill` invalid: zeros.
ValueId padded(Op&, ValueId x, PadAttrs open, ValueId fill);

}  // namespace rlxc::onnx_import
