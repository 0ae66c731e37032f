// Sliding windows over one or more spatial axes of [N, C, ...]: convolution, transposed convolution and pooling, each result
// element a loop over its window. Larger convolutions use conv.h.
#pragma once
#include <functional>
#include <optional>
#include <vector>

#include "kernel/builders/common.h"

namespace rlxc::kernel {

struct WindowSpec {
  Index batch = 1, in_channels = 1, out_channels = 1;
  Dims in_size, out_size;  // spatial
  std::vector<int64_t> kernel, strides, pads_begin, pads_end, dilations;
  int64_t groups = 1;
  DType input = DType::F32, weight = DType::F32, output = DType::F32, accumulate = DType::F32;
  std::optional<Operand> image, result;  // x and y with strides if they are not row-major (conv.h)
  bool weights_packed = false;           // conv.h: w is the result of build_pack_weights, without zero points
  // conv.h: w is the result of build_pack_weight_words, the image that of build_phase_split_words.
  bool dots = false;
  std::optional<Operand> x_zero, w_zero;                                    // subtracted; strides [] and [out channel]
  std::vector<Operand> extras;                                              // of the epilogue; strides [batch, channel, position]
  std::function<Expr(Expr sum, const std::vector<Expr>& extras)> epilogue;  // may be null
};

// Adds x, w [out, in / groups, kernel...], [x_zero], [w_zero], extras, y.
void build_window_conv(Builder&, const WindowSpec&, const Mapping&);
// The same with w [in, out / groups, kernel...]: the adjoint of the convolution.
void build_window_conv_transpose(Builder&, const WindowSpec&, const Mapping&);

// Combines a window: start, then step(accumulated, value) per element inside of the image, then finish(accumulated, count). The
// count includes padding if count_padding. Adds x, y.
struct PoolSpec {
  WindowSpec window;
  std::function<Expr(Kernel*)> start;
  std::function<Expr(Expr, Expr)> step;
  std::function<Expr(Expr, Expr count)> finish;
  bool counts = false;  // whether `finish` uses the count
  bool count_padding = false;
};
void build_pool(Builder&, const PoolSpec&, const Mapping&);

// Largest element and its flat index; column_major: numbers the spatial part with the first axis fastest. Adds x, y, index.
void build_max_pool_indices(Builder&, const WindowSpec&, bool column_major, const Mapping&);

}  // namespace rlxc::kernel
