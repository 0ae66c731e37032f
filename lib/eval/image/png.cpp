#include <spng.h>

#include <memory>

#include "eval/image/codecs.h"

namespace rlxc::eval::codec {

bool decode_png(Decoding& d) {
  constexpr size_t kMaxText = size_t{1} << 24;  // limit on bytes of other chunks
  const std::unique_ptr<spng_ctx, void (*)(spng_ctx*)> decoder(spng_ctx_new(0), spng_ctx_free);
  if (!decoder) return d.fail("no memory");
  spng_ihdr header{};
  int error = spng_set_chunk_limits(decoder.get(), kMaxText, kMaxText);
  if (!error) error = spng_set_png_buffer(decoder.get(), d.file.data(), d.file.size());
  if (!error) error = spng_get_ihdr(decoder.get(), &header);
  if (error) return d.fail(spng_strerror(error));
  if (!d.start(header.width, header.height)) return false;
  error = spng_decode_image(decoder.get(), d.pixels(), d.image.rgb.size(), SPNG_FMT_RGB8, 0);
  if (!error) error = spng_decode_chunks(decoder.get());  // up to the end chunk
  return !error || d.fail(spng_strerror(error));
}

}  // namespace rlxc::eval::codec
