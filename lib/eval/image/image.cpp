#include "eval/image/image.h"

#include <string_view>

#include "eval/image/codecs.h"

namespace rlxc::eval {
namespace {

using namespace std::string_view_literals;

struct Format {
  std::string_view name, signature;  // first bytes of a file; '?' matches any byte
  bool (*decode)(codec::Decoding&);
};
constexpr Format kFormats[] = {
    {"BMP", "BM"sv, codec::decode_bmp},
    {"JPEG", "\xFF\xD8\xFF"sv, codec::decode_jpeg},
    {"JPEG 2000", "\0\0\0\x0CjP  \r\n\x87\n"sv, codec::decode_jpeg2000},
    {"JPEG 2000", "\xFF\x4F\xFF\x51"sv, codec::decode_jpeg2000},
    {"PNG", "\x89PNG\r\n\x1A\n"sv, codec::decode_png},
    {"PNM", "P1"sv, codec::decode_pnm},
    {"PNM", "P2"sv, codec::decode_pnm},
    {"PNM", "P3"sv, codec::decode_pnm},
    {"PNM", "P4"sv, codec::decode_pnm},
    {"PNM", "P5"sv, codec::decode_pnm},
    {"PNM", "P6"sv, codec::decode_pnm},
    {"TIFF", "II*\0"sv, codec::decode_tiff},
    {"TIFF", "MM\0*"sv, codec::decode_tiff},
    {"TIFF", "II+\0"sv, codec::decode_tiff},
    {"TIFF", "MM\0+"sv, codec::decode_tiff},
    {"WebP", "RIFF????WEBP"sv, codec::decode_webp},
};

bool has_signature(std::span<const uint8_t> file, std::string_view signature) {
  if (file.size() < signature.size()) return false;
  for (size_t i = 0; i < signature.size(); ++i)
    if (signature[i] != '?' && static_cast<uint8_t>(signature[i]) != file[i]) return false;
  return true;
}

}  // namespace

bool codec::Decoding::start(int64_t width, int64_t height) {
  if (width < 1 || height < 1) return fail("it has no pixels");
  if (height > max_pixels / width)
    return fail("its " + std::to_string(width) + " x " + std::to_string(height) + " pixels are more than the " +
                std::to_string(max_pixels) + " allowed");
  image.width = width, image.height = height;
  image.rgb.resize(static_cast<size_t>(width * height) * 3);
  return true;
}

std::optional<Image> decode_image(std::span<const uint8_t> file, int64_t max_pixels, std::string* message) {
  for (const Format& f : kFormats) {
    if (!has_signature(file, f.signature)) continue;
    codec::Decoding d{file, max_pixels, {}, {}};
    if (f.decode(d)) return std::move(d.image);
    *message = std::string(f.name) + " file: " + d.error;
    return std::nullopt;
  }
  *message = "no image file that is known (BMP, JPEG, JPEG 2000, PNG, PNM, TIFF, WebP)";
  return std::nullopt;
}

}  // namespace rlxc::eval
