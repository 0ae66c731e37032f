// Block-quantized weight formats: fixed numbers of elements in fixed numbers of bytes, including scales. GGUF: the layouts of
// ggml (ggml-common.h, ggml-quants.c). mxfp4: OCP Microscaling Formats 1.0. nvfp4: without the factor of a tensor.
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
  MXFP4,
  NVFP4
};
inline constexpr int kBlockFormatCount = 17;

std::string_view name(BlockFormat);  // "q4_k"
int block_elements(BlockFormat);     // 32, 64 or 256
int block_bytes(BlockFormat);
std::optional<BlockFormat> block_format_from_name(std::string_view);

// Convert one block; the spans have the sizes above. Encoding rounds each element to the nearest quant, with scales chosen from
// the extremes of the (sub-)block.
void decode_block(BlockFormat, std::span<const uint8_t> block, std::span<float> out);
void encode_block(BlockFormat, std::span<const float> values, std::span<uint8_t> out);

// The 16 values of 4-bit quants, in order: FP4 E2M1, and the non-linear table of ggml.
std::span<const float> fp4_values();
std::span<const float> iq4_nl_values();

}  // namespace rlxc
