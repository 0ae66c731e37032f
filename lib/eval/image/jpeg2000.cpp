#include <openjpeg.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "eval/image/library.h"

namespace rlxc::eval::codec {
namespace {

struct OpenJpeg : Library {
  OpenJpeg() : Library(RLXC_OPENJP2_FILE) {}
  RLXC_LIBRARY_FUNCTION(opj_create_decompress);
  RLXC_LIBRARY_FUNCTION(opj_destroy_codec);
  RLXC_LIBRARY_FUNCTION(opj_stream_create);
  RLXC_LIBRARY_FUNCTION(opj_stream_destroy);
  RLXC_LIBRARY_FUNCTION(opj_stream_set_user_data);
  RLXC_LIBRARY_FUNCTION(opj_stream_set_user_data_length);
  RLXC_LIBRARY_FUNCTION(opj_stream_set_read_function);
  RLXC_LIBRARY_FUNCTION(opj_stream_set_skip_function);
  RLXC_LIBRARY_FUNCTION(opj_stream_set_seek_function);
  RLXC_LIBRARY_FUNCTION(opj_set_error_handler);
  RLXC_LIBRARY_FUNCTION(opj_set_default_decoder_parameters);
  RLXC_LIBRARY_FUNCTION(opj_setup_decoder);
  RLXC_LIBRARY_FUNCTION(opj_read_header);
  RLXC_LIBRARY_FUNCTION(opj_image_destroy);
  RLXC_LIBRARY_FUNCTION(opj_decode);
  RLXC_LIBRARY_FUNCTION(opj_end_decompress);
};

constexpr int64_t kMaxTiles = 4096;
constexpr int kMaxChannels = 4;

// Input stream for OpenJPEG.
struct Jpeg2000Source {
  std::span<const uint8_t> file;
  size_t at = 0;

  static OPJ_SIZE_T read(void* to, OPJ_SIZE_T count, void* user) {
    auto& s = *static_cast<Jpeg2000Source*>(user);
    const size_t n = std::min(count, s.file.size() - s.at);
    if (n == 0) return static_cast<OPJ_SIZE_T>(-1);
    std::memcpy(to, s.file.data() + s.at, n);
    s.at += n;
    return n;
  }
  static OPJ_OFF_T skip(OPJ_OFF_T count, void* user) {
    auto& s = *static_cast<Jpeg2000Source*>(user);
    if (count < 0 || static_cast<size_t>(count) > s.file.size() - s.at) return -1;
    s.at += static_cast<size_t>(count);
    return count;
  }
  static OPJ_BOOL seek(OPJ_OFF_T to, void* user) {
    auto& s = *static_cast<Jpeg2000Source*>(user);
    if (to < 0 || static_cast<size_t>(to) > s.file.size()) return OPJ_FALSE;
    s.at = static_cast<size_t>(to);
    return OPJ_TRUE;
  }
};

// Checks all possible size headers (marker SIZ of ISO 15444-1, A.5.1) first, because OpenJPEG allocates memory for all tiles when
// it reads a header.
bool sizes_allowed(Decoding& d) {
  constexpr uint8_t kStart[] = {0xFF, 0x4F, 0xFF, 0x51};  // SOC, SIZ
  const auto end = d.file.end();
  for (auto at = d.file.begin(); (at = std::search(at, end, std::begin(kStart), std::end(kStart))) != end; ++at) {
    if (end - at < 42) return d.fail("it is cut off");
    const auto field = [&](int i) {  // right, bottom, left, top of the image; width, height, left, top of the tiles
      const auto p = at + 8 + 4 * i;
      return int64_t{p[0]} << 24 | int64_t{p[1]} << 16 | int64_t{p[2]} << 8 | p[3];
    };
    const int64_t width = field(0) - field(2), height = field(1) - field(3);
    if (width < 1 || height < 1 || height > d.max_pixels / width) return d.start(width, height);
    if (field(4) < 1 || field(5) < 1) return d.fail("its tiles have no size");
    const int64_t across = (field(0) - field(6) + field(4) - 1) / field(4),
                  down = (field(1) - field(7) + field(5) - 1) / field(5);
    if (across < 1 || down < 1 || across > kMaxTiles / down)
      return d.fail("it has none or more than " + std::to_string(kMaxTiles) + " tiles");
    if (at[40] != 0 || at[41] < 1 || at[41] > kMaxChannels)
      return d.fail("it has none or more than " + std::to_string(kMaxChannels) + " channels");
  }
  return true;
}

template <class T>
using Owned = std::unique_ptr<T, void (*)(T*)>;

bool copy(const opj_image_t& image, Decoding& d) {
  const int64_t width = image.comps[0].w, height = image.comps[0].h;
  const uint32_t colours = image.numcomps >= 3 ? 3 : 1;
  if (image.color_space == OPJ_CLRSPC_SYCC || image.color_space == OPJ_CLRSPC_EYCC || image.color_space == OPJ_CLRSPC_CMYK)
    return d.fail("its colours are neither grey nor red, green and blue");
  for (uint32_t c = 0; c < colours; ++c)
    if (image.comps[c].w != width || image.comps[c].h != height || !image.comps[c].data)
      return d.fail("its channels differ in size");
  if (!d.start(width, height)) return false;
  for (uint32_t c = 0; c < 3; ++c) {
    const opj_image_comp_t& from = image.comps[std::min(c, colours - 1)];
    const auto precision = static_cast<int>(from.prec);
    const int64_t offset = (from.sgnd ? int64_t{1} << (precision - 1) : 0) + (precision > 8 ? int64_t{1} << (precision - 9) : 0);
    for (int64_t i = 0; i < width * height; ++i) {
      const int64_t v = from.data[i] + offset;
      d.pixels()[3 * i + c] =
          static_cast<uint8_t>(std::clamp<int64_t>(precision > 8 ? v >> (precision - 8) : v << (8 - precision), 0, 255));
    }
  }
  return true;
}

}  // namespace

bool decode_jpeg2000(Decoding& d) {
  if (!sizes_allowed(d)) return false;
  const OpenJpeg* const lib = open_library<OpenJpeg>(d);
  if (!lib) return false;
  Jpeg2000Source source{d.file};
  const Owned<opj_codec_t> decoder(lib->opj_create_decompress(d.file[0] == 0 ? OPJ_CODEC_JP2 : OPJ_CODEC_J2K),
                                   lib->opj_destroy_codec);
  const Owned<opj_stream_t> stream(lib->opj_stream_create(size_t{1} << 16, OPJ_TRUE), lib->opj_stream_destroy);
  if (!decoder || !stream) return d.fail("no memory");
  lib->opj_stream_set_user_data(stream.get(), &source, nullptr);
  lib->opj_stream_set_user_data_length(stream.get(), d.file.size());
  lib->opj_stream_set_read_function(stream.get(), Jpeg2000Source::read);
  lib->opj_stream_set_skip_function(stream.get(), Jpeg2000Source::skip);
  lib->opj_stream_set_seek_function(stream.get(), Jpeg2000Source::seek);
  lib->opj_set_error_handler(
      decoder.get(),
      [](const char* message, void* user) {
        const std::string_view text(message);
        static_cast<Decoding*>(user)->fail(std::string(text.substr(0, text.find_last_not_of('\n') + 1)));
      },
      &d);
  opj_dparameters_t parameters;
  lib->opj_set_default_decoder_parameters(&parameters);
  opj_image_t* made = nullptr;
  const bool header =
      lib->opj_setup_decoder(decoder.get(), &parameters) && lib->opj_read_header(stream.get(), decoder.get(), &made);
  const Owned<opj_image_t> image(made, lib->opj_image_destroy);
  if (!header || !image || image->numcomps < 1 || !lib->opj_decode(decoder.get(), stream.get(), image.get()) ||
      !lib->opj_end_decompress(decoder.get(), stream.get()))
    return d.fail("it is damaged or cut off");
  return copy(*image, d);
}

}  // namespace rlxc::eval::codec
