// Decoders of a build without the libraries of image formats (RLXC_STATIC).
#include "eval/image/codecs.h"

namespace rlxc::eval::codec {

bool decode_jpeg(Decoding& d) { return d.fail("this build of rlxc reads no JPEG"); }
bool decode_jpeg2000(Decoding& d) { return d.fail("this build of rlxc reads no JPEG 2000"); }
bool decode_png(Decoding& d) { return d.fail("this build of rlxc reads no PNG"); }
bool decode_tiff(Decoding& d) { return d.fail("this build of rlxc reads no TIFF"); }
bool decode_webp(Decoding& d) { return d.fail("this build of rlxc reads no WebP"); }

}  // namespace rlxc::eval::codec
