// Convolutions on threads. Most are products of the weights with the windows of the image, of which the gemm builder asks a panel
// at a time (implicit gemm); depthwise ones are sums of shifted rows.
//
// Both read a spread image: padded, and its last axis sorted by the remainder of the index modulo the stride, so that neighbours
// in a row of the result read neighbours of the image whatever the stride. Of an axis along which the kernel has one tap only
// what is read is there, so that a kernel of one tap makes the image a plain matrix.
#pragma once
#include "kernel/builders/window.h"

namespace rlxc::kernel {

// A spatial axis of the spread image: `phases` parts of out size * step + extra elements; element i of part f is element
// i * source_step + f - pad of the image. The window of result element o begins at element o * step.
struct SpreadAxis {
  int64_t phases = 1, step = 1, extra = 0, source_step = 1;
};
std::vector<SpreadAxis> spread_axes(const WindowSpec&);
bool is_spread(const WindowSpec&);           // the image is its own spread image
inline constexpr int64_t kSpreadSlack = 64;  // elements after the spread image, that whole vectors may read

// Adds x, [x_zero], spread [batch * channels][axes...] + slack, of s.input or, with x_zero subtracted, of s.accumulate.
void build_spread(Builder&, const WindowSpec&, const Mapping&);
// Adds w, spread (or x), [w_zero], extras, y. The channels of a group and the kernel are constants.
void build_conv(Builder&, const WindowSpec&, int64_t group_channels, const Mapping&);

}  // namespace rlxc::kernel
