// Numbers of few bits and quantised blocks, decoded by simple operations.
#pragma once
#include <span>
#include <vector>

#include "ir/builder.h"
#include "support/block_format.h"

namespace rlxc::compose {

// u8 [..., m] -> u8 [..., m*shifts]: from each run of `run` bytes the field (byte >> shift) & mask of all its bytes, one shift
// after the other.
ValueId spread_bits(Builder&, ValueId x, Dim run, const std::vector<uint8_t>& shifts, int mask);
// u8 [..., n] -> u8 [..., n*8/width]: the fields of `width` bits (1, 2, 4) of each byte, low bits first; width 8 gives x itself.
ValueId unpack_bits(Builder&, ValueId x, int width);
// u8 [..., n*size of t] -> t [..., n]: little-endian bytes read as numbers of 2 or 4 bytes.
ValueId read_bytes(Builder&, ValueId x, DType t);
// Entry codes[i] of a table of at most 256 numbers, f32.
ValueId look_up(Builder&, std::span<const float> table, ValueId codes);
// u8 [n, block bytes] -> f32 [n, block elements].
ValueId decode_blocks(Builder&, BlockFormat, ValueId blocks);
// f8e4m3fn as bytes, NaN as 0 -> f32: the scales of NVFP4.
ValueId decode_scale_bytes(Builder&, ValueId x);

}  // namespace rlxc::compose
