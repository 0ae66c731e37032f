// Image decoders, one per format. Each calls `start` with the size and writes rows of RGB if that succeeds.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "eval/image/rgb_image.h"

namespace rlxc::eval::codec {

struct Decoding {
  std::span<const uint8_t> file;
  int64_t max_pixels = 0;
  Image image;
  std::string error;

  bool fail(std::string message) {
    if (error.empty()) error = std::move(message);
    return false;
  }
  // Allocates the pixels. Returns false beyond the limit.
  bool start(int64_t width, int64_t height);
  uint8_t* pixels() { return image.rgb.data(); }
};

bool decode_bmp(Decoding&);
bool decode_jpeg(Decoding&);
bool decode_jpeg2000(Decoding&);
bool decode_png(Decoding&);
bool decode_pnm(Decoding&);
bool decode_tiff(Decoding&);
bool decode_webp(Decoding&);

}  // namespace rlxc::eval::codec
