#include <webp/decode.h>

#include "eval/image/codecs.h"

namespace rlxc::eval::codec {

bool decode_webp(Decoding& d) {
  WebPBitstreamFeatures info{};
  if (WebPGetFeatures(d.file.data(), d.file.size(), &info) != VP8_STATUS_OK) return d.fail("its header is damaged");
  if (info.has_animation) return d.fail("animations are not supported");
  if (!d.start(info.width, info.height)) return false;
  return WebPDecodeRGBInto(d.file.data(), d.file.size(), d.pixels(), d.image.rgb.size(), info.width * 3) ||
         d.fail("it is damaged or cut off");
}

}  // namespace rlxc::eval::codec
