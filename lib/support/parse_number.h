// Numbers from text, independent of the locale.
#pragma once
#include <charconv>
#include <string_view>
#include <system_error>

namespace rlxc {

// Reads all of `s` as a number. Returns false if it is none or does not fit; *out is unchanged then.
template <class T>
bool parse_number(std::string_view s, T* out) {
  T n{};
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), n);
  if (error != std::errc() || end != s.data() + s.size()) return false;
  *out = n;
  return true;
}

}  // namespace rlxc
