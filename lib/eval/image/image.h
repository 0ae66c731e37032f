// Decodes image files as ImageDecoder of ONNX (operator set 20) does: BMP, JPEG, JPEG 2000, PNG, PNM, TIFF and WebP, detected by
// content. The libraries are configured as in Pillow, the reference of ONNX's tests: no gamma or orientation correction, no alpha
// channel, grey as three equal numbers.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "eval/image/rgb_image.h"

namespace rlxc::eval {

constexpr int64_t kMaxImagePixels = int64_t{1} << 26;

// Returns nullopt with a message if the format is unknown, the file is damaged or truncated, or it has more than `max_pixels`,
// which is checked before allocation. O(pixels + bytes).
std::optional<Image> decode_image(std::span<const uint8_t> file, int64_t max_pixels, std::string* message);

}  // namespace rlxc::eval
