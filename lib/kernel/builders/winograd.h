// 3x3 convolutions of stride 1 with fewer multiplications, on CPU threads for blocked images: F(m x m, 3x3) computes m x m
// results from (m + 2)^2 products per channel in place of 9 m^2 (Winograd, "Arithmetic Complexity of Computations", 1980; Lavin
// and Gray, "Fast Algorithms for Convolutional Neural Networks", 2016). Points of F(4x4) are 0, 3/4, -3/4, 3/2, -3/2 and
// infinity: its rounding errors are twice those of plain sums, where the usual points 1 and 2 give ten times (Barabasz et al.,
// "Error Analysis and Improving the Accuracy of Winograd Convolution for Deep Neural Networks", 2020).
//
// Tiles of the image are transformed to points, a product of matrices per point sums the channels, and its results are
// transformed to tiles of the result. A launch does this for a band of tile rows, so that points stay in the caches.
//
// 8-bit integers have exact sums. Their points are 0, 1, -1, 2, -2 and infinity. Transformed weights are scaled to whole numbers
// of 16 bits, which makes results 24^2 = 9 * 2^6 times the sums. The arithmetic is modulo 2^32, where division by 9 is exact, and
// the last 6 bits are shifted out. A sum is correct if it lies within 2^25; more channels are summed in parts.
#pragma once
#include "kernel/builders/blocked.h"

namespace rlxc::kernel {

struct WinogradConv {
  WinogradConv(const BlockedConv&, int64_t tile);

  bool integers() const { return weight == DType::I8; }
  DType point() const { return integers() ? DType::I16 : DType::F32; }
  DType sum() const { return integers() ? DType::I32 : DType::F32; }
  DType packed() const { return integers() ? DType::I32 : DType::F32; }  // weights: words of two channels

  int64_t side() const { return tile + 2; }
  int64_t points() const { return side() * side(); }
  int64_t band_tiles() const { return band * tiles[1]; }
  int64_t bands() const { return (rows() + band - 1) / band; }
  int64_t images() const { return constant_value(padded.batch); }
  int64_t rows() const { return images() * tiles[0]; }  // tile rows of all images
  int64_t group() const { return integers() ? 2 : 1; }  // channels of a product
  // Packed integers end with the sum of the weights of each result.
  int64_t weight_elements() const { return points() * padded.channels / group() * results + (integers() ? results : 0); }
  int64_t pitch() const { return band_tiles() | 1; }  // tiles of a point: odd, so that points fall into several sets of a cache
  int64_t image_points() const { return points() * padded.channels * pitch(); }  // elements of a band
  int64_t sum_points() const { return points() * parts * results * band_tiles(); }
  BlockedConv products() const;  // the products of a band: a group of 1x1 convolutions per point and part
  BlockedConv image() const;     // for build_pad_blocked

  int64_t tile, lanes, results;    // results: channels
  std::array<int64_t, 2> tiles{};  // of an image
  std::array<int64_t, 2> out{};    // rows and columns of the result
  int64_t band = 1;                // tile rows of a launch
  int64_t parts = 1;               // of the channels, with sums of their own
  DType weight, result;
  BlockedWindows padded;  // the image with its padding, of whole tiles
  Epilogue epilogue;
};

// Returns the tile for which the convolution is fastest, or 0 if that is the plain sum, or if the convolution has no such form.
// The batch is a constant.
int64_t winograd_tile(const BlockedConv&, const Mapping&, int64_t largest);

// Transforms w [results, channels, 3, 3] and packs it for products(). `blocks`: of the image. Adds w, out.
void build_winograd_weights(Builder&, const WinogradConv&, Index blocks, const Mapping&);
// Transforms the band of tile rows that begins with row `first`. Adds image (padded), out.
void build_winograd_tiles(Builder&, const WinogradConv&, Index first, Index blocks, const Mapping&);
// Writes the results of the band. `blocks`: of the result. Adds sums, [packed weights, [zero]] of integers, inputs of the
// epilogue, y, also.
void build_winograd_results(Builder&, const WinogradConv&, Index first, Index blocks, const Mapping&);

}  // namespace rlxc::kernel
