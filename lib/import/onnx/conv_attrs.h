// The attributes shared by convolutions and poolings: full-length lists with auto_pad resolved. Padding that depends on symbolic
// dims goes to `open` (spatial axes) instead; without `open` it is an error. All return nullopt after an error.
#pragma once
#include <optional>

#include "import/onnx/op.h"

namespace rlxc::onnx_import {

std::optional<ConvAttrs> conv_attrs(Op&, std::vector<Dim> spatial, std::span<const Dim> kernel, PadAttrs* open = nullptr);
// `weights`: the input with weights [Co,Ci,...]. Input 0 is [N,C,...].
std::optional<ConvAttrs> conv_attrs(Op&, size_t weights, PadAttrs* open = nullptr);
// The same for a transposed convolution. `weights`: the input with weights [Ci,Co/groups,...]. `pads`: the input with the pads;
// absent: they are an attribute.
std::optional<ConvAttrs> conv_transpose_attrs(Op&, size_t weights, std::optional<size_t> pads = {});
std::optional<PoolAttrs> pool_attrs(Op&, std::vector<Dim> spatial, ReduceOp, PadAttrs* open = nullptr);
// Pads x [N,C,...]; returns x if `open` has no entries. Invalid `fill`: zeros.
ValueId padded(Op&, ValueId x, PadAttrs open, ValueId fill);

}  // namespace rlxc::onnx_import
