#include "ops/strings.h"

namespace rlxc::ops {

std::string change_case(const std::string& s, LetterCase change) {
  if (change == LetterCase::None) return s;
  const bool upper = change == LetterCase::Upper;
  std::string out;
  for (size_t i = 0; i < s.size(); ++i) {
    const auto c = static_cast<unsigned char>(s[i]);
    if (c < 0x80) {
      const bool letter = upper ? c >= 'a' && c <= 'z' : c >= 'A' && c <= 'Z';
      out += static_cast<char>(letter ? c ^ 0x20 : c);
    } else if ((c & 0xE0) == 0xC0 && i + 1 < s.size()) {
      uint32_t u = (c & 0x1Fu) << 6 | (static_cast<unsigned char>(s[++i]) & 0x3Fu);
      struct Range {
        uint32_t first, last, distance;
      };
      for (const Range r : {Range{0xC0, 0xDE, 0x20}, {0x391, 0x3A9, 0x20}, {0x410, 0x42F, 0x20}, {0x400, 0x40F, 0x50}}) {
        if (u == 0xD7 || u == 0xF7) break;
        if (!upper && u >= r.first && u <= r.last) {
          u += r.distance;
          break;
        }
        if (upper && u >= r.first + r.distance && u <= r.last + r.distance) {
          u -= r.distance;
          break;
        }
      }
      out += static_cast<char>(0xC0 | u >> 6);
      out += static_cast<char>(0x80 | (u & 0x3F));
    } else {
      out += s[i];
    }
  }
  return out;
}

}  // namespace rlxc::ops
