// libjpeg-turbo through TurboJPEG, which returns errors instead of calling longjmp. Accurate DCT and smooth chroma upsampling are
// its defaults.
#include <turbojpeg.h>

#include <memory>

#include "eval/image/codecs.h"

namespace rlxc::eval::codec {

bool decode_jpeg(Decoding& d) {
  const std::unique_ptr<void, int (*)(void*)> decoder(tjInitDecompress(), tjDestroy);
  if (!decoder) return d.fail("no memory");
  int width = 0, height = 0, sampling = 0, colours = 0;
  // Fails, with known sizes, for unusual subsampling, which the decoder supports.
  tjDecompressHeader3(decoder.get(), d.file.data(), d.file.size(), &width, &height, &sampling, &colours);
  if (width < 1 || height < 1) return d.fail(tjGetErrorStr2(decoder.get()));
  if (!d.start(width, height)) return false;
  // Treats warnings (damaged data, or so many scans that they would take minutes) as errors.
  return tjDecompress2(decoder.get(), d.file.data(), d.file.size(), d.pixels(), width, 0, height, TJPF_RGB,
                       TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS) == 0 ||
         d.fail(tjGetErrorStr2(decoder.get()));
}

}  // namespace rlxc::eval::codec
