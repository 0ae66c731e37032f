// Convolutions as matmuls of the weights with the windows of the image (implicit gemm), of which the gemm builder asks an
// element or a panel at a time; and windows of single channels (depthwise convolution, pooling) as combinations of shifted rows.
// All read a phase-split image (phase_split.h).
#pragma once
#include "kernel/builders/phase_split.h"

namespace rlxc::kernel {

// Adds w, image (spread), [w_zero] (of dots: both zero points), extras, y. The channels of a group and the kernel are constants.
void build_conv(Builder&, const WindowSpec&, int64_t group_channels, const Mapping&);

// For threads: lays weights out as build_conv reads them in order (GemmSpec::rows_packed), of the accumulator type, w_zero
// subtracted. Adds w, [w_zero], rows: the elements of so many output channels.
void build_pack_weights(Builder&, const WindowSpec&, int64_t group_channels, const Mapping&);
int64_t packed_channels(const WindowSpec&, int64_t out_channels, const Mapping&);
bool conv_is_tiled(Kernel*, const WindowSpec&, int64_t group_channels);  // whether that is of use

// For threads with a dot unit, of 8-bit integers: words of four channels. The image is as large as that of window_of_words, the
// weights take weight_words elements of i32. x_zero and w_zero stay with the matmul.
bool conv_fits_dots(const WindowSpec&, int64_t group_channels, const Mapping&);
WindowSpec window_of_words(const WindowSpec&, int64_t group_channels);
int64_t weight_words(const WindowSpec&, int64_t group_channels, int64_t out_channels);
void build_pack_weight_words(Builder&, const WindowSpec&, int64_t group_channels, const Mapping&);  // adds w, rows

// For threads: the same where every group has one channel; and pooling, with what PoolSpec::start is as padding.
void build_depthwise_rows(Builder&, const WindowSpec&, const Mapping&);
void build_pool_rows(Builder&, const PoolSpec&, const Mapping&);  // adds image, y

}  // namespace rlxc::kernel
