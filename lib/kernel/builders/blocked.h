// Convolution and pooling on CPU threads for images whose channels are in blocks of a vector (NCHW16c, NCHW8c): a weight or a
// result is a vector, an element of the image is broadcast. Values are f32, f16 or bf16 with sums in f32, or u8 and i8 with sums
// in i32; channels and windows are constants, rows and columns may be. Kernels take the number of blocks as an argument
// (`blocks`), so that layers which differ in their channels alone share one. After Georganas et al. ("Anatomy of High-Performance
// Deep Learning Convolutions on SIMD Architectures", 2018).
#pragma once
#include <array>
#include <optional>

#include "kernel/builders/window_spec.h"

namespace rlxc::kernel {

// The windows of an image [batch][channels / block][height][width][block]. A block of 1 is the row-major image.
struct BlockedWindows {
  DType dtype = DType::F32;  // of the image
  Index batch = 1;           // images; one that is no constant belongs to the kernel that is built
  int64_t channels = 1, block = 1;
  int64_t planes = 0;           // channels of a row-major image of integers, which build_pad_blocked puts into blocks
  bool joins_taps = false;      // these are one block, whose pixels are no whole words: the taps of a row share words
  std::optional<Operand> zero;  // of integers: the zero point, subtracted (one element)
  Prologue prologue;            // of the image, f32 then: build_pad_blocked quantizes it
  std::array<int64_t, 2> in{}, out{}, kernel{}, stride{1, 1}, dilation{1, 1}, pad{}, pad_end{};  // pad: before the image
  // Rows and columns that are known in a run only, as arguments of the kernel that is built; `in` and `out` are 0 then.
  bool open = false;
  bool overhangs = false;  // the last window of an open axis may reach beyond the padding
  std::array<Index, 2> open_in{0, 0}, open_out{0, 0};
  // An image and a result of depthwise windows whose channels are the innermost axis: strides [N, C, H, W], of C 1.
  std::optional<Operand> image, result;

  int64_t taps() const { return kernel[0] * kernel[1]; }
  // Products of a window's row in a block of channels. The last word of joined taps reaches beyond them, where weights are zero.
  int64_t row_terms() const;
  // Elements along an axis from the first of the first window to the last of the last one.
  int64_t span(size_t axis) const { return (out[axis] - 1) * stride[axis] + (kernel[axis] - 1) * dilation[axis] + 1; }
  bool reaches_beyond(size_t axis) const;  // whether a window may reach beyond the image
  bool padded() const { return reaches_beyond(0) || reaches_beyond(1); }
  int64_t extent(size_t axis) const { return padded() ? span(axis) : in[axis]; }  // of the image with its padding
  bool one_image() const { return is_constant(batch, 1); }
  // The same sizes in a kernel, constants or not.
  Expr in_size(Kernel* k, size_t axis) const { return (open ? open_in[axis] : Index(in[axis])).in(k); }
  Expr out_size(Kernel* k, size_t axis) const { return (open ? open_out[axis] : Index(out[axis])).in(k); }
  Expr extent(Kernel*, size_t axis) const;
  int64_t slack() const { return joins_taps ? kWordCodes - 1 : 0; }  // elements after a row, which words may reach
  Expr pitch(Kernel* k) const { return extent(k, 1) * block + slack(); }
};

// The epilogue of a vector of channels. Its inputs have strides over channels and positions: [0, 0], [1, 0] or [1, 1]. The last
// has the layout of the result.
class BlockedEpilogue {
 public:
  BlockedEpilogue(Builder&, const Epilogue&);                            // adds the inputs
  void begin(Expr channel, int lanes);                                   // for the vector of channels from this one on
  std::vector<Expr> values(std::span<const Expr> roots, Expr at) const;  // of the elements of the results from `at` on
  void add_results(DType, Expr elements);                                // adds y, also
  void store(Expr at, Expr sum) const;                                   // the values of all results from `at` on

 private:
  Builder& b_;
  const Epilogue& e_;
  FusedInputs inputs_;
  std::vector<Buf> results_;
  std::vector<Expr> own_;  // inputs that are the same at all positions
};

// A convolution. Channels of a group are whole blocks of the image. Vectors have `lanes` channels of the result; missing channels
// of a group's last vector are zero before the epilogue. The result has blocks of as many channels, or of `narrow` if that is not
// 0; then there is one group, and blocks of missing channels are not stored.
struct BlockedConv {
  BlockedWindows windows;
  int64_t groups = 1, group_outputs = 1, lanes = 16, narrow = 0;
  DType weight = DType::F32, result = DType::F32;
  bool dots = false;        // on a dot unit (conv_fits_blocked_dots)
  bool float_sums = false;  // of integers: the epilogue takes sums in f32 if they were computed so (depthwise)
  Epilogue epilogue;        // as BlockedEpilogue

  // Products of a sum.
  int64_t depth() const { return windows.channels / groups / windows.block * windows.kernel[0] * windows.row_terms(); }
  int64_t blocks() const { return (group_outputs + lanes - 1) / lanes; }  // vectors of a group's results
  int64_t stored_block() const { return narrow ? narrow : lanes; }
  int64_t stored_blocks() const { return (group_outputs + stored_block() - 1) / stored_block(); }
  int64_t parts() const { return lanes / stored_block(); }  // blocks of a vector
  int64_t weight_elements() const { return groups * blocks() * lanes * (depth() / group() + sum_rows()); }
  bool integers() const { return weight == DType::I8; }                     // codes with a zero point
  int64_t group() const { return dots ? integers() ? kWordCodes : 2 : 1; }  // channels of a product
  int64_t sum_rows() const { return integers() ? 1 : 0; }                   // rows of sums after a panel
  DType accumulator() const { return is_integer(weight) ? DType::I32 : DType::F32; }
  DType packed() const { return dots ? DType::I32 : DType::F32; }                       // weights: words of channels
  DType image() const { return !dots ? DType::F32 : integers() ? DType::U8 : weight; }  // as tiles read it
  // Whether the image is copied for them.
  bool copies() const { return windows.padded() || windows.planes > 0 || windows.prologue.body || windows.dtype != image(); }
};

bool conv_fits_blocked_dots(const BlockedConv&, const Mapping&);
// Whether a convolution of integers between row-major images, with several taps, takes less time in blocks of channels than with
// vectors of positions, of which the last is not full.
bool blocks_of_codes_pay(const BlockedConv&, const Mapping&);
// Whether words of joined taps are fewer than words of channels.
bool joined_taps_pay(const BlockedWindows&);

// Adds x, [zero], inputs of the prologue, and the image with its padding as tiles read it, [batch][channels /
// block][extent][extent][block]. Padding is the zero point. The sign bit of i8 is flipped. `blocks`: of all images.
void build_pad_blocked(Builder&, const BlockedConv&, Index blocks, const Mapping&);

// Packs w [groups * group_outputs, channels / groups, kernel...] in the order in which tiles read it: [group][panel][depth][panel
// vectors][lanes], where depth is [channel / block][kernel...][block / group()]. Panels of integers end with a row of their sums.
// `blocks`: of a group's image. Adds w, out.
void build_pack_blocked(Builder&, const BlockedConv&, Index blocks, const Mapping&);
// Where packed weights of a block of a group's results begin within the group, and the elements between their products. `rows`:
// of a panel.
struct PanelPlace {
  Expr first, step;
};
PanelPlace panel_place(Builder&, const BlockedConv&, Expr block, Expr rows, const Mapping&);
// Adds packed weights, image (the result of build_pad_blocked if it copies), [zero], inputs of the epilogue, y, also. `band`:
// tiles_per_task() or an argument of that value; ignored if sizes are open.
void build_conv_blocked(Builder&, const BlockedConv&, Index blocks, Index band, const Mapping&);
int64_t tiles_per_task(const BlockedConv&, const Mapping&);

// A convolution of single channels. Packs w [channels, 1, kernel...] as [channels / block][kernel...][block] of f32. `blocks`: of
// an image. Adds w, out.
void build_pack_depthwise(Builder&, const BlockedWindows&, DType weight, Index blocks, const Mapping&);
// Adds packed weights, x (without padding), [zero], inputs of the epilogue, y. Integers are multiplied in f32; their sums must
// fit its mantissa.
void build_depthwise_blocked(Builder&, const BlockedConv&, Index blocks, const Mapping&);

// Adds x, inputs of the epilogue (as BlockedEpilogue), y.
void build_pool_blocked(Builder&, const BlockedWindows&, const PoolFunction&, Index blocks, const Mapping&);

}  // namespace rlxc::kernel
