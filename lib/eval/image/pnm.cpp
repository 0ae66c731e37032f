// Netpbm's pbm, pgm and ppm, as text (P1..P3) and binary (P4..P6). Without a library: Netpbm's exits the process on errors.
#include <algorithm>
#include <cmath>

#include "eval/image/codecs.h"

namespace rlxc::eval::codec {
namespace {

class Reader {
 public:
  explicit Reader(std::span<const uint8_t> bytes) : bytes_(bytes) {}

  // The next number after white space and comments, with at most `digits` digits, or -1.
  int64_t number(int digits = 9) {
    while (at_ < bytes_.size() && (is_space(bytes_[at_]) || bytes_[at_] == '#')) {
      if (bytes_[at_] == '#')
        while (at_ < bytes_.size() && bytes_[at_] != '\n' && bytes_[at_] != '\r') ++at_;
      else ++at_;
    }
    int64_t v = -1;
    for (; digits > 0 && at_ < bytes_.size() && bytes_[at_] >= '0' && bytes_[at_] <= '9'; --digits)
      v = std::max<int64_t>(v, 0) * 10 + (bytes_[at_++] - '0');
    return v;
  }
  bool space() { return at_ < bytes_.size() && is_space(bytes_[at_++]); }
  std::span<const uint8_t> rest() const { return bytes_.subspan(at_); }

 private:
  static bool is_space(uint8_t c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
  std::span<const uint8_t> bytes_;
  size_t at_ = 2;
};

}  // namespace

bool decode_pnm(Decoding& d) {
  const int kind = (d.file[1] - '1') % 3;  // bitmap, grey, colour
  const bool text = d.file[1] <= '3';
  Reader in(d.file);
  const int64_t width = in.number(), height = in.number(), most = kind == 0 ? 1 : in.number();
  if (width < 0 || height < 0 || most < 1 || most > 65535 || (!text && !in.space())) return d.fail("its header is damaged");
  const int64_t samples = kind == 2 ? 3 : 1, sample_bytes = most > 255 ? 2 : 1;
  if (width == 0 || height > d.max_pixels / width) return d.start(width, height);
  const int64_t row_bytes = kind == 0 ? (width + 7) / 8 : width * samples * sample_bytes;
  const auto bytes = in.rest();
  if (static_cast<int64_t>(bytes.size()) < (text ? width * height * samples : row_bytes * height)) return d.fail("it is cut off");
  if (!d.start(width, height)) return false;

  const auto sample = [&](int64_t y, int64_t i) -> int64_t {
    if (text) return in.number(kind == 0 ? 1 : 9);
    const uint8_t* row = bytes.data() + y * row_bytes;
    if (kind == 0) return row[i / 8] >> (7 - i % 8) & 1;
    return sample_bytes == 1 ? row[i] : row[2 * i] << 8 | row[2 * i + 1];
  };
  uint8_t* out = d.pixels();
  for (int64_t y = 0; y < height; ++y)
    for (int64_t i = 0; i < width * samples; ++i) {
      const int64_t v = sample(y, i);
      if (v < 0 || v > most) return d.fail("a sample is missing or too large");
      const auto level = static_cast<uint8_t>(kind == 0 ? (1 - v) * 255 : std::nearbyint(static_cast<double>(v * 255) / most));
      out = std::fill_n(out, 3 / samples, level);
    }
  return true;
}

}  // namespace rlxc::eval::codec
