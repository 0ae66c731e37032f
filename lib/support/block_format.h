// Quantised formats of weights: blocks of a fixed number of elements in a fixed number of bytes, scales among them. GGUF: the
// layouts of ggml (ggml-common.h, ggml-quants.c). mxfp4: OCP Microscaling Formats 1.0.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace rlxc {

enum class BlockFormat : uint8_t {
  Q4_0,
  Q4_1,
  Q5_0,
  Q5_1,
  Q8_0,
  Q2_K,
  Q3_K,
  Q4_K,
  Q5_K,
  Q6_K,
  Q8_K,
  IQ4_NL,
  IQ4_XS,
  TQ1_0,
  TQ2_0,
  MXFP4
};
inline constexpr int kBlockFormatCount = 16;

std::string_view name(BlockFormat);  // "q4_k"
int block_elements(BlockFormat);     // 32 or 256
int block_bytes(BlockFormat);
std::optional<BlockFormat> block_format_from_name(std::string_view);

// One block; the spans have the sizes above. Encoding rounds each element to the nearest quant of scales that are chosen from the
// extremes of the (sub-)block.
void decode_block(BlockFormat, std::span<const uint8_t> block, std::span<float> out);
void encode_block(BlockFormat, std::span<const float> values, std::span<uint8_t> out);

// The 16 numbers that quants of 4 bits stand for, in order: FP4 E2M1, and ggml's non-linear table.
std::span<const float> fp4_values();
std::span<const float> iq4_nl_values();

}  // namespace rlxc
