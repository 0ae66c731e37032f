// Convolutions as implicit gemm: matmuls of the weights with the windows of the image, which the gemm builder requests by element
// or panel. Depthwise convolution and pooling combine shifted rows. All read a phase-split image (phase_split.h).
#pragma once
#include "kernel/builders/phase_split.h"

namespace rlxc::kernel {

// Adds w, image (phase-split, or the windows), [w_zero] (with dots: both zero points), inputs of the epilogue, y, also. The
// group's channels and the window are constants.
void build_conv(Builder&, const WindowSpec&, int64_t group_channels, const Mapping&);

// Whether to give a grid channels-last images and weights (`dots`: words): for matrix units, and for vectors of f32. Rows of the
// weights, of the type of w, then have the channels of a tap side by side.
bool conv_reads_channels_last(const WindowSpec&, int64_t group_channels, const Mapping&);

// Packs weights in the order in which build_conv reads them. For CPU threads: in the accumulator type, with w_zero subtracted
// (GemmSpec::rows_packed). Adds w, [w_zero], rows. packed_channels: the output channels of `rows`, with padding.
void build_pack_weights(Builder&, const WindowSpec&, int64_t group_channels, const Mapping&);
int64_t packed_channels(const WindowSpec&, int64_t out_channels, const Mapping&);
bool conv_is_tiled(Kernel*, const WindowSpec&, int64_t group_channels, const Mapping&);  // whether packing pays

// For CPU threads: depthwise convolution and convolution to few channels, and pooling, whose padding is PoolSpec::start.
void build_conv_rows(Builder&, const WindowSpec&, int64_t group_channels, const Mapping&);
void build_pool_rows(Builder&, const PoolSpec&, const Mapping&);  // adds image, inputs of the epilogue, y

}  // namespace rlxc::kernel
