#include "support/number.h"

#include <charconv>
#include <cstring>

namespace rlxc {
namespace {

char* copy(char* out, const char* text) {
  const size_t n = std::strlen(text);
  std::memcpy(out, text, n);
  return out + n;
}

template <class T>
char* write(char* out, T v) {
  if (std::isnan(v)) return copy(out, "nan");
  if (std::isinf(v)) return copy(out, v < 0 ? "-inf" : "inf");
  return std::to_chars(out, out + kNumberChars, v).ptr;
}

template <class T>
std::string text(T v) {
  char buffer[kNumberChars];
  return std::string(buffer, write(buffer, v));
}

}  // namespace

char* write_shortest(char* out, double v) { return write(out, v); }
char* write_shortest(char* out, float v) { return write(out, v); }
std::string shortest(double v) { return text(v); }
std::string shortest(float v) { return text(v); }

std::string human_bytes(uint64_t n) {
  static constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (n < 1024) return std::to_string(n) + " B";
  int unit = 0;
  uint64_t whole = n, rest = 0;  // n = (whole + rest / 1024) units, without smaller remainders
  for (; unit < 6 && whole >= 1024; ++unit) {
    rest = whole % 1024;
    whole /= 1024;
  }
  uint64_t tenths = (rest * 10 + 512) / 1024;
  if (tenths == 10) {
    ++whole;
    tenths = 0;
  }
  if (whole == 1024 && unit < 6) {
    whole = 1;
    ++unit;
  }
  return std::to_string(whole) + "." + std::to_string(tenths) + " " + kUnits[unit - 1];
}

}  // namespace rlxc
