// A convolution on dot units as a matmul: rows are output channels, columns are positions of the result.
#pragma once
#include "kernel/builders/conv.h"
#include "kernel/builders/gemm.h"

namespace rlxc::kernel {

// Returns the matmul without image, result and epilogue.
GemmSpec conv_by_dots(Kernel*, const WindowSpec&, int64_t group_channels);

}  // namespace rlxc::kernel
