// The sizes, steps and operands of convolutions and pooling, which combine sliding windows of [N, C, ...].
#pragma once
#include <functional>
#include <optional>
#include <vector>

#include "kernel/builders/fused_io.h"

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
  Prologue prologue;                      // of x, f32 then: its elements as `input`, where they are read (with x_zero)
  // Strides of inputs are over [batch, channel, position], those of further results (of whole groups) as of `result`.
  Epilogue epilogue;
};

// Combines a window: start, then step(accumulated, value) per element inside of the image. The roots of the epilogue are the
// accumulated value and the count of elements, which includes padding if count_padding.
struct PoolFunction {
  std::function<Expr(Kernel*)> start;
  std::function<Expr(Expr, Expr)> step;
  Epilogue epilogue;    // inputs as of WindowSpec
  bool counts = false;  // whether it uses the count
  bool count_padding = false;
};
struct PoolSpec : PoolFunction {
  WindowSpec window;
};

}  // namespace rlxc::kernel
