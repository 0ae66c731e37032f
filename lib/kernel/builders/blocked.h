// Convolution and pooling on CPU threads for images whose channels are in blocks of a vector (NCHW16c, NCHW8c): a weight or a
// result is a vector, an element of the image is broadcast. Values are f32, sizes constants. Kernels take the number of blocks as
// an argument (`blocks`), so that layers which differ in their channels alone share one. After Georganas et al. ("Anatomy of
// High-Performance Deep Learning Convolutions on SIMD Architectures", 2018).
#pragma once
#include <array>
#include <functional>
#include <optional>

#include "kernel/builders/common.h"

namespace rlxc::kernel {

// The windows of an image [batch][channels / block][height][width][block]. A block of 1 is the row-major image.
struct BlockedWindows {
  int64_t batch = 1, channels = 1, block = 1;
  std::array<int64_t, 2> in{}, out{}, kernel{}, stride{1, 1}, dilation{1, 1}, pad{};  // pad: before the image

  int64_t taps() const { return kernel[0] * kernel[1]; }
  // Elements along an axis from the first of the first window to the last of the last one.
  int64_t span(size_t axis) const { return (out[axis] - 1) * stride[axis] + (kernel[axis] - 1) * dilation[axis] + 1; }
  bool padded() const;  // whether a window reaches beyond the image
  int64_t padded_elements() const { return batch * channels * span(0) * span(1); }
};

// Adds x and the image with its padding, [batch][channels / block][span][span][block]. `blocks`: of all images.
void build_pad_blocked(Builder&, const BlockedWindows&, Index blocks, const Mapping&);

// Applied to a vector of sums: bias (stride 1 over channels), residual (laid out as the result), activation.
struct BlockedEpilogue {
  std::optional<Operand> bias, residual;
  std::function<Expr(Expr)> act;  // may be null
};

// A convolution. Channels of a group are whole blocks of the image. The result has blocks of `lanes` channels; missing channels
// of a group's last block are zero before the epilogue.
struct BlockedConv {
  BlockedWindows windows;
  int64_t groups = 1, group_outputs = 1, lanes = 16;
  BlockedEpilogue epilogue;

  int64_t depth() const { return windows.channels / groups * windows.taps(); }  // products of a sum
  int64_t blocks() const { return (group_outputs + lanes - 1) / lanes; }        // of a group's results
  int64_t weight_elements() const { return groups * blocks() * lanes * depth(); }
};

// Packs w [groups * group_outputs, channels / groups, kernel...] in the order in which tiles read it: [group][panel][depth][panel
// vectors][lanes], where depth is [channel / block][kernel...][block]. `blocks`: of a group's image. Adds w, out.
void build_pack_blocked(Builder&, const BlockedConv&, Index blocks, const Mapping&);
// Adds packed weights, image (with its padding if windows are padded), [bias], [residual], y. `band`: tiles_per_task() or an
// argument of that value.
void build_conv_blocked(Builder&, const BlockedConv&, Index blocks, Index band, const Mapping&);
int64_t tiles_per_task(const BlockedConv&, const Mapping&);

// A convolution of single channels. Packs w [channels, 1, kernel...] as [channels / block][kernel...][block]. `blocks`: of an
// image. Adds w, out.
void build_pack_depthwise(Builder&, const BlockedWindows&, Index blocks, const Mapping&);
// Adds packed weights, x (without padding), [bias], [residual], y.
void build_depthwise_blocked(Builder&, const BlockedWindows&, const BlockedEpilogue&, Index blocks, const Mapping&);

// The function of a pooling (window.h, PoolSpec).
struct BlockedPool {
  BlockedWindows windows;
  std::array<int64_t, 2> pad_end{};
  std::function<Expr(Kernel*)> start;
  std::function<Expr(Expr, Expr)> step;
  std::function<Expr(Expr, Expr count)> finish;
  bool counts = false, count_padding = false;
};
void build_pool_blocked(Builder&, const BlockedPool&, Index blocks, const Mapping&);  // adds x, y

}  // namespace rlxc::kernel
