// libjpeg-turbo through TurboJPEG, which returns errors instead of calling longjmp. Accurate DCT and smooth chroma upsampling are
// its defaults.
#include <turbojpeg.h>

#include <memory>

#include "eval/image/library.h"

namespace rlxc::eval::codec {
namespace {

struct TurboJpeg : Library {
  TurboJpeg() : Library(RLXC_TURBOJPEG_FILE) {}
  RLXC_LIBRARY_FUNCTION(tjInitDecompress);
  RLXC_LIBRARY_FUNCTION(tjDestroy);
  RLXC_LIBRARY_FUNCTION(tjDecompressHeader3);
  RLXC_LIBRARY_FUNCTION(tjDecompress2);
  RLXC_LIBRARY_FUNCTION(tjGetErrorStr2);
};

}  // namespace

bool decode_jpeg(Decoding& d) {
  const TurboJpeg* const lib = open_library<TurboJpeg>(d);
  if (!lib) return false;
  const std::unique_ptr<void, int (*)(void*)> decoder(lib->tjInitDecompress(), lib->tjDestroy);
  if (!decoder) return d.fail("no memory");
  int width = 0, height = 0, sampling = 0, colours = 0;
  // Fails, with known sizes, for unusual subsampling, which the decoder supports.
  lib->tjDecompressHeader3(decoder.get(), d.file.data(), d.file.size(), &width, &height, &sampling, &colours);
  if (width < 1 || height < 1) return d.fail(lib->tjGetErrorStr2(decoder.get()));
  if (!d.start(width, height)) return false;
  // Treats warnings (damaged data, or so many scans that they would take minutes) as errors.
  return lib->tjDecompress2(decoder.get(), d.file.data(), d.file.size(), d.pixels(), width, 0, height, TJPF_RGB,
                            TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS) == 0 ||
         d.fail(lib->tjGetErrorStr2(decoder.get()));
}

}  // namespace rlxc::eval::codec
