// Convolutions as implicit gemm: matmuls of the weights with the windows of the image, which the gemm builder requests by element
// or panel. Depthwise convolution and pooling combine shifted rows. All read a phase-split image (phase_split.h).
#pragma once
#include "kernel/builders/phase_split.h"

namespace rlxc::kernel {

// Adds w, image (phase-split), [w_zero] (with dots: both zero points), extras, y. The group's channels and the window are
// constants.
void build_conv(Builder&, const WindowSpec&, int64_t group_channels, const Mapping&);

// For CPU threads: packs weights in the order in which build_conv reads them (GemmSpec::rows_packed), in the accumulator type,
// with w_zero subtracted. Adds w, [w_zero], rows. packed_channels: the output channels of `rows`, with padding.
void build_pack_weights(Builder&, const WindowSpec&, int64_t group_channels, const Mapping&);
int64_t packed_channels(const WindowSpec&, int64_t out_channels, const Mapping&);
bool conv_is_tiled(Kernel*, const WindowSpec&, int64_t group_channels);  // whether packing pays

// For CPU threads with a dot unit and 8-bit integers: words of four channels. The image has the size of window_of_words, the
// weights take weight_words elements of i32. The matmul applies x_zero and w_zero.
bool conv_fits_dots(const WindowSpec&, int64_t group_channels, const Mapping&);
WindowSpec window_of_words(const WindowSpec&, int64_t group_channels);
int64_t weight_words(const WindowSpec&, int64_t group_channels, int64_t out_channels);
void build_pack_weight_words(Builder&, const WindowSpec&, int64_t group_channels, const Mapping&);  // adds w, rows

// For CPU threads: depthwise convolution, and pooling, whose padding is PoolSpec::start.
void build_depthwise_rows(Builder&, const WindowSpec&, const Mapping&);
void build_pool_rows(Builder&, const PoolSpec&, const Mapping&);  // adds image, y

}  // namespace rlxc::kernel
