// Sliding windows over one or more spatial axes of [N, C, ...]: convolution, transposed convolution and pooling, each result
// element a loop over its window. Larger convolutions use conv.h.
#pragma once
#include "kernel/builders/window_spec.h"

namespace rlxc::kernel {

// Adds x, w [out, in / groups, kernel...], [x_zero], [w_zero], inputs of the prologue and the epilogue, y, also.
void build_window_conv(Builder&, const WindowSpec&, const Mapping&);
// The same with w [in, out / groups, kernel...]: the adjoint of the convolution.
void build_window_conv_transpose(Builder&, const WindowSpec&, const Mapping&);

// The windows of all result elements, of all input channels: [batch][position][channel][tap], with zeros outside of the image. x
// may have strides (WindowSpec::image). Adds x, windows.
void build_windows(Builder&, const WindowSpec&, const Mapping&);

// Adds x, inputs of the epilogue, y.
void build_pool(Builder&, const PoolSpec&, const Mapping&);

// Largest element and its flat index; column_major: numbers the spatial part with the first axis fastest. Adds x, y, index.
void build_max_pool_indices(Builder&, const WindowSpec&, bool column_major, const Mapping&);

}  // namespace rlxc::kernel
