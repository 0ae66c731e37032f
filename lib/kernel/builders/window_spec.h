// The sizes, steps and operands of convolutions and pooling, which combine sliding windows of [N, C, ...].
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
  bool windows = false;                  // conv.h: the image is the result of build_windows
  bool weights_packed = false;           // conv.h: w is the result of build_pack_weights, without zero points
  // conv.h: the dot unit, if any; w is the result of build_pack_weight_words, the image that of build_phase_split_words or
  // (`bytes`, on a grid, if it is its own phase-split image) x.
  const DotUnit* dots = nullptr;
  bool bytes = false;
  // conv.h, on a grid: the image has channels last (build_image_on_grid), and the channels of a tap of w are neighbours.
  bool channels_last = false;
  std::optional<Operand> x_zero, w_zero;  // subtracted; strides [] and [out channel]
  std::optional<Operand> x_scale;         // x is f32, divided by it and rounded to `input` where it is read (with x_zero)
  std::vector<Operand> extras;            // of the epilogue; strides [batch, channel, position]
  std::function<Expr(Expr sum, const std::vector<Expr>& extras)> epilogue;  // may be null
  // Further results of a convolution of whole groups, with strides as `result`, and the values of all, instead of `epilogue`.
  std::vector<Operand> also;
  std::function<std::vector<Expr>(Expr sum, const std::vector<Expr>& extras)> results;
};

// Combines a window: start, then step(accumulated, value) per element inside of the image, then finish(accumulated, count). The
// count includes padding if count_padding.
struct PoolSpec {
  WindowSpec window;
  std::function<Expr(Kernel*)> start;
  std::function<Expr(Expr, Expr)> step;
  std::function<Expr(Expr, Expr count)> finish;
  bool counts = false;  // whether `finish` uses the count
  bool count_padding = false;
};

}  // namespace rlxc::kernel
