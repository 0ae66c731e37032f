#include <spng.h>

#include <memory>

#include "eval/image/library.h"

namespace rlxc::eval::codec {
namespace {

struct Spng : Library {
  Spng() : Library(RLXC_SPNG_FILE) {}
  RLXC_LIBRARY_FUNCTION(spng_ctx_new);
  RLXC_LIBRARY_FUNCTION(spng_ctx_free);
  RLXC_LIBRARY_FUNCTION(spng_set_chunk_limits);
  RLXC_LIBRARY_FUNCTION(spng_set_png_buffer);
  RLXC_LIBRARY_FUNCTION(spng_get_ihdr);
  RLXC_LIBRARY_FUNCTION(spng_decode_image);
  RLXC_LIBRARY_FUNCTION(spng_decode_chunks);
  RLXC_LIBRARY_FUNCTION(spng_strerror);
};

}  // namespace

bool decode_png(Decoding& d) {
  const Spng* const lib = open_library<Spng>(d);
  if (!lib) return false;
  constexpr size_t kMaxText = size_t{1} << 24;  // limit on bytes of other chunks
  const std::unique_ptr<spng_ctx, void (*)(spng_ctx*)> decoder(lib->spng_ctx_new(0), lib->spng_ctx_free);
  if (!decoder) return d.fail("no memory");
  spng_ihdr header{};
  int error = lib->spng_set_chunk_limits(decoder.get(), kMaxText, kMaxText);
  if (!error) error = lib->spng_set_png_buffer(decoder.get(), d.file.data(), d.file.size());
  if (!error) error = lib->spng_get_ihdr(decoder.get(), &header);
  if (error) return d.fail(lib->spng_strerror(error));
  if (!d.start(header.width, header.height)) return false;
  error = lib->spng_decode_image(decoder.get(), d.pixels(), d.image.rgb.size(), SPNG_FMT_RGB8, 0);
  if (!error) error = lib->spng_decode_chunks(decoder.get());  // up to the end chunk
  return !error || d.fail(lib->spng_strerror(error));
}

}  // namespace rlxc::eval::codec
