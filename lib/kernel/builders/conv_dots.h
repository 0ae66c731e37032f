// A convolution on dot units as a matmul: rows are output channels, columns are positions of the result.
#pragma once
#include "kernel/builders/gemm_spec.h"
#include "kernel/builders/window_spec.h"

namespace rlxc::kernel {

bool conv_fills_matrix_unit(const WindowSpec&, int64_t group_channels);  // as a matmul of weights and windows

// Words of four channels for a dot unit, whose left operand is the image and whose right one the weights. The image has the size
// of window_of_words, the weights take weight_words elements of i32. The matmul applies x_zero and w_zero.
const DotUnit* conv_dot_unit(const WindowSpec&, int64_t group_channels, const Mapping&);  // null if there is none
WindowSpec window_of_words(const WindowSpec&, int64_t group_channels);
int64_t weight_words(const WindowSpec&, int64_t group_channels, int64_t out_channels);
void build_pack_weight_words(Builder&, const WindowSpec&, int64_t group_channels, const Mapping&);  // adds w, rows

// Returns the matmul without image, result and epilogue.
GemmSpec conv_by_dots(Kernel*, const WindowSpec&, int64_t group_channels);

}  // namespace rlxc::kernel
