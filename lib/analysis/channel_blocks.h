// Chooses channels in blocks of a vector (NCHW16c) for the values that pass between convolutions, where kernels read and write
// them so. Reorders remain at the edges, inside of the convolutions there.
#pragma once
#include "ir/attrs.h"
#include "ir/layout.h"

namespace rlxc {

// Most f32 elements of the rows that a kernel with windows copies at once (kernel/builders/blocked_window.cpp).
inline constexpr int64_t kMostWindowRows = 64 << 10;
// Most elements of a window whose products of 8-bit integers have exact sums in f32 (the same file).
inline constexpr int64_t kMostExactTaps = (1 << 24) / (255 * 128);

// Sets the layout of each image [N, C, H, W] of floats or 8-bit integers, with a static C, that a convolution
// makes and of those that share elements with it through elementwise ops, pooling and concatenation, if every user reads blocks
// of `lanes` channels or of half as many. O(values + uses).
void assign_channel_blocks(const Graph&, int64_t lanes, GraphLayouts*);

// The channels of a group's operand and result, or nullopt if the node is no convolution with kernels for blocked images.
struct ConvChannels {
  int64_t groups, in, out;
  bool depthwise() const { return groups > 1 && in == 1 && out == 1; }
};
std::optional<ConvChannels> blocked_conv_channels(const Graph&, NodeId);
bool is_integer_conv(OpKind);
const ConvAttrs* conv_attrs(const Graph&, NodeId);  // of such a convolution; null for other nodes
bool is_blocked_conv(OpKind);                       // a kind of convolution that has such kernels
// Returns whether the node is a convolution of depthwise windows without a residual that has kernels for images with channels
// last: its channels are whole vectors of `lanes`.
bool takes_channels_last(const Graph&, NodeId, int64_t lanes);

}  // namespace rlxc
