// stb_image with the BMP reader only. It reads zeros beyond the end of a file, so the size is checked here.
#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_STATIC
#define STBI_ONLY_BMP
#define STBI_NO_STDIO
#include <stb/stb_image.h>

#include <algorithm>
#include <memory>

#include "eval/image/codecs.h"

namespace rlxc::eval::codec {
namespace {

// Little-endian; bytes beyond the end are 0.
int64_t number_at(std::span<const uint8_t> file, size_t at, size_t bytes) {
  int64_t v = 0;
  for (size_t i = bytes; i-- > 0;) v = v << 8 | (at + i < file.size() ? file[at + i] : 0);
  return v;
}

}  // namespace

bool decode_bmp(Decoding& d) {
  const auto length = static_cast<int>(std::min<size_t>(d.file.size(), INT_MAX));
  int width = 0, height = 0, channels = 0;
  if (!stbi_info_from_memory(d.file.data(), length, &width, &height, &channels)) return d.fail(stbi_failure_reason());
  const int64_t begin = number_at(d.file, 10, 4), bits = number_at(d.file, number_at(d.file, 14, 4) == 12 ? 24 : 28, 2);
  if (width < 1 || height < 1 || height > d.max_pixels / width) return d.start(width, height);
  if (begin + (width * bits + 31) / 32 * 4 * height > length) return d.fail("it is cut off");
  const std::unique_ptr<uint8_t, void (*)(void*)> pixels(
      stbi_load_from_memory(d.file.data(), length, &width, &height, &channels, 3), stbi_image_free);
  if (!pixels) return d.fail(stbi_failure_reason());
  if (!d.start(width, height)) return false;
  std::copy_n(pixels.get(), d.image.rgb.size(), d.pixels());
  return true;
}

}  // namespace rlxc::eval::codec
