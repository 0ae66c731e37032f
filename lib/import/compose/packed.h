// Decodes packed sub-byte values and quantized blocks with IR ops.
#pragma once
#include <span>
#include <vector>

#include "ir/builder.h"
#include "support/block_format.h"

namespace rlxc::compose {

// u8 [..., m] -> u8 [..., m*shifts]. For each run of `run` bytes: the fields (byte >> shift) & mask of all its bytes, shift by
// shift.
ValueId spread_bits(Builder&, ValueId x, Dim run, const std::vector<uint8_t>& shifts, int mask);
// u8 [..., n] -> u8 [..., n*8/width]: the fields of `width` bits (1, 2, 4) of each byte, low bits first. Width 8 returns x.
ValueId unpack_bits(Builder&, ValueId x, int width);
// u8 [..., n*size of t] -> t [..., n]: little-endian numbers of 2 or 4 bytes.
ValueId read_bytes(Builder&, ValueId x, DType t);
// Returns table[codes[i]] as f32. The table has at most 256 entries.
ValueId look_up(Builder&, std::span<const float> table, ValueId codes);
// The parts of quantized blocks: element i of a block is codes[i]*scale[i/run] - minimum[i/run].
struct BlockParts {
  ValueId codes;             // i8 or u8 [n, block elements]
  DType narrow = DType::I8;  // the smallest type that holds all codes
  int64_t run = 0;           // elements that share a scale
  ValueId scale;             // [n, block elements / run]; f16 if the block stores it, otherwise f32
  ValueId minimum;           // f32 [n, block elements / run], or invalid
};
// Splits u8 [n, block bytes] into its parts.
BlockParts split_blocks(Builder&, BlockFormat, ValueId blocks);
// u8 [n, block bytes] -> f32 [n, block elements].
ValueId decode_blocks(Builder&, BlockFormat, ValueId blocks);
// f8e4m3fn bytes -> f32, NaN becomes 0: the scales of NVFP4.
ValueId decode_scale_bytes(Builder&, ValueId x);

}  // namespace rlxc::compose
