// libjpeg-turbo through its TurboJPEG interface, which answers errors instead of jumping. Exact sums and smooth upsampling of
// colours are its defaults.
#include <turbojpeg.h>

#include <memory>

#include "eval/image/codecs.h"

namespace rlxc::eval::codec {

bool decode_jpeg(Decoding& d) {
  const std::unique_ptr<void, int (*)(void*)> decoder(tjInitDecompress(), tjDestroy);
  if (!decoder) return d.fail("no memory");
  int width = 0, height = 0, sampling = 0, colours = 0;
  // Fails with sizes known where the sampling is an unusual one, which decoding does not mind.
  tjDecompressHeader3(decoder.get(), d.file.data(), d.file.size(), &width, &height, &sampling, &colours);
  if (width < 1 || height < 1) return d.fail(tjGetErrorStr2(decoder.get()));
  if (!d.start(width, height)) return false;
  // Damaged data are warnings to the library; so many scans that they would take minutes are told by it as well.
  return tjDecompress2(decoder.get(), d.file.data(), d.file.size(), d.pixels(), width, 0, height, TJPF_RGB,
                       TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS) == 0 ||
         d.fail(tjGetErrorStr2(decoder.get()));
}

}  // namespace rlxc::eval::codec
