#include <tiffio.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "eval/image/library.h"

namespace rlxc::eval::codec {
namespace {

struct Tiff : Library {
  Tiff() : Library(RLXC_TIFF_FILE) {}
  RLXC_LIBRARY_FUNCTION(TIFFOpenOptionsAlloc);
  RLXC_LIBRARY_FUNCTION(TIFFOpenOptionsFree);
  RLXC_LIBRARY_FUNCTION(TIFFOpenOptionsSetErrorHandlerExtR);
  RLXC_LIBRARY_FUNCTION(TIFFOpenOptionsSetWarningHandlerExtR);
  RLXC_LIBRARY_FUNCTION(TIFFOpenOptionsSetMaxSingleMemAlloc);
  RLXC_LIBRARY_FUNCTION(TIFFClientOpenExt);
  RLXC_LIBRARY_FUNCTION(TIFFClose);
  RLXC_LIBRARY_FUNCTION(TIFFGetField);
  RLXC_LIBRARY_FUNCTION(TIFFGetFieldDefaulted);
  RLXC_LIBRARY_FUNCTION(TIFFSetField);
  RLXC_LIBRARY_FUNCTION(TIFFReadRGBAImageOriented);
};

// Input stream for libtiff.
struct TiffSource {
  Decoding& decoding;
  uint64_t at = 0;

  static TiffSource& of(thandle_t h) { return *static_cast<TiffSource*>(h); }
  static tmsize_t read(thandle_t h, void* to, tmsize_t count) {
    TiffSource& s = of(h);
    const auto file = s.decoding.file;
    const uint64_t n = s.at < file.size() ? std::min<uint64_t>(static_cast<uint64_t>(count), file.size() - s.at) : 0;
    if (n > 0) std::memcpy(to, file.data() + s.at, n);
    s.at += n;
    return static_cast<tmsize_t>(n);
  }
  static tmsize_t write(thandle_t, void*, tmsize_t) { return 0; }
  static toff_t seek(thandle_t h, toff_t offset, int whence) {
    TiffSource& s = of(h);
    return s.at = (whence == SEEK_CUR ? s.at : whence == SEEK_END ? s.decoding.file.size() : 0) + offset;
  }
  static int close(thandle_t) { return 0; }
  static toff_t size(thandle_t h) { return of(h).decoding.file.size(); }

  static int error(TIFF*, void* user, const char*, const char* format, va_list arguments) {
    char message[256];
    std::vsnprintf(message, sizeof message, format, arguments);
    static_cast<Decoding*>(user)->fail(message);
    return 1;
  }
  static int warning(TIFF*, void*, const char*, const char*, va_list) { return 1; }
};

}  // namespace

bool decode_tiff(Decoding& d) {
  const Tiff* const lib = open_library<Tiff>(d);
  if (!lib) return false;
  TiffSource source{d};
  const std::unique_ptr<TIFFOpenOptions, void (*)(TIFFOpenOptions*)> options(lib->TIFFOpenOptionsAlloc(),
                                                                             lib->TIFFOpenOptionsFree);
  if (!options) return d.fail("no memory");
  lib->TIFFOpenOptionsSetErrorHandlerExtR(options.get(), TiffSource::error, &d);
  lib->TIFFOpenOptionsSetWarningHandlerExtR(options.get(), TiffSource::warning, nullptr);
  lib->TIFFOpenOptionsSetMaxSingleMemAlloc(options.get(), d.max_pixels * 8 + (1 << 20));
  const std::unique_ptr<TIFF, void (*)(TIFF*)> tiff(
      lib->TIFFClientOpenExt("image", "rm", &source, TiffSource::read, TiffSource::write, TiffSource::seek, TiffSource::close,
                             TiffSource::size, nullptr, nullptr, options.get()),
      lib->TIFFClose);
  uint32_t width = 0, height = 0;
  if (!tiff || !lib->TIFFGetField(tiff.get(), TIFFTAG_IMAGEWIDTH, &width) ||
      !lib->TIFFGetField(tiff.get(), TIFFTAG_IMAGELENGTH, &height))
    return d.fail("its size is missing");
  if (!d.start(width, height)) return false;
  // Declares alpha as associated, so that libtiff does not multiply colours by it.
  uint16_t extra_count = 0, *extra = nullptr;
  lib->TIFFGetFieldDefaulted(tiff.get(), TIFFTAG_EXTRASAMPLES, &extra_count, &extra);
  if (extra_count > 0) {
    std::vector<uint16_t> in_colours(extra_count, EXTRASAMPLE_ASSOCALPHA);
    lib->TIFFSetField(tiff.get(), TIFFTAG_EXTRASAMPLES, extra_count, in_colours.data());
  }
  std::vector<uint32_t> raster(size_t{width} * height);
  if (!lib->TIFFReadRGBAImageOriented(tiff.get(), width, height, raster.data(), ORIENTATION_TOPLEFT, 1))
    return d.fail("it is damaged or cut off");
  uint8_t* out = d.pixels();
  for (const uint32_t pixel : raster) {
    *out++ = TIFFGetR(pixel);
    *out++ = TIFFGetG(pixel);
    *out++ = TIFFGetB(pixel);
  }
  return d.error.empty();
}

}  // namespace rlxc::eval::codec
