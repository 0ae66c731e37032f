// Image files as pixels, what ImageDecoder of ONNX (operator set 20) reads: BMP, JPEG, JPEG 2000, PNG, PNM, TIFF and WebP. The
// content decides, not a name. Libraries decode; what they are told is how Pillow tells them, whose results ONNX's tests hold:
// no correction of gamma or of orientation, an alpha channel is left out, grey is three equal numbers.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace rlxc::eval {

constexpr int64_t kMaxImagePixels = int64_t{1} << 26;

struct Image {
  int64_t height = 0, width = 0;
  std::vector<uint8_t> rgb;  // [height,width,3]
};

// Nullopt with a message if the file is of no known format, damaged, cut off, or has more than `max_pixels`, which is decided
// before there is memory for them. O(pixels + bytes).
std::optional<Image> decode_image(std::span<const uint8_t> file, int64_t max_pixels, std::string* message);

}  // namespace rlxc::eval
