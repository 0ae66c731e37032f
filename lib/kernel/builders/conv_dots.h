// The matmul that a convolution by dot units is: rows are output channels, columns positions of the result.
#pragma once
#include "kernel/builders/conv.h"
#include "kernel/builders/gemm.h"

namespace rlxc::kernel {

// Without the image, the result and the epilogue.
GemmSpec conv_by_dots(Kernel*, const WindowSpec&, int64_t group_channels);

}  // namespace rlxc::kernel
