#include <webp/decode.h>

#include "eval/image/library.h"

namespace rlxc::eval::codec {
namespace {

struct WebP : Library {
  WebP() : Library(RLXC_WEBP_FILE) {}
  RLXC_LIBRARY_FUNCTION(WebPGetFeaturesInternal);
  RLXC_LIBRARY_FUNCTION(WebPDecodeRGBInto);
};

}  // namespace

bool decode_webp(Decoding& d) {
  const WebP* const lib = open_library<WebP>(d);
  if (!lib) return false;
  WebPBitstreamFeatures info{};
  if (lib->WebPGetFeaturesInternal(d.file.data(), d.file.size(), &info, WEBP_DECODER_ABI_VERSION) != VP8_STATUS_OK)
    return d.fail("its header is damaged");
  if (info.has_animation) return d.fail("animations are not supported");
  if (!d.start(info.width, info.height)) return false;
  return lib->WebPDecodeRGBInto(d.file.data(), d.file.size(), d.pixels(), d.image.rgb.size(), info.width * 3) ||
         d.fail("it is damaged or cut off");
}

}  // namespace rlxc::eval::codec
