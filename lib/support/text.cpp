#include "support/text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <system_error>

namespace rlxc {
namespace {

constexpr char kHex[] = "0123456789abcdef";

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::string lower(std::string_view s) {
  std::string out(s);
  for (char& c : out) c = lower(c);
  return out;
}

void append_hex(std::string& out, char c) {
  const auto byte = static_cast<uint8_t>(c);
  out += "\\x";
  out += kHex[byte >> 4];
  out += kHex[byte & 15];
}

}  // namespace

std::vector<std::string_view> split(std::string_view s, char separator) {
  std::vector<std::string_view> parts;
  for (size_t at; (at = s.find(separator)) != std::string_view::npos; s.remove_prefix(at + 1)) parts.push_back(s.substr(0, at));
  parts.push_back(s);
  return parts;
}

std::string system_error_text(int error) { return std::generic_category().message(error); }

std::string_view trim(std::string_view s) {
  const size_t first = s.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return s.substr(first, s.find_last_not_of(" \t\r\n") - first + 1);
}

int utf8_step(std::string_view s) {
  const auto byte = [&](size_t i) { return i < s.size() ? static_cast<uint8_t>(s[i]) : 0; };
  const int lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return -1;
  const int length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  // The second byte is restricted to exclude overlong forms, surrogates and code points above U+10FFFF.
  const int low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const int high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  if (byte(1) < low || byte(1) > high) return -1;
  for (int i = 2; i < length; ++i)
    if ((byte(static_cast<size_t>(i)) & 0xC0) != 0x80) return -i;
  return length;
}

size_t plain_prefix(std::string_view s) {
  using Bytes [[gnu::vector_size(16)]] = uint8_t;
  using Words [[gnu::vector_size(16)]] = uint64_t;
  const auto block_plain = [&](size_t i) {
    Bytes b;
    std::memcpy(&b, s.data() + i, sizeof b);
    const auto other = reinterpret_cast<Words>((b < 0x20) | (b > 0x7E) | (b == '"') | (b == '\\'));
    return (other[0] | other[1]) == 0;
  };
  // A high bit is set for each other byte, and possibly, harmlessly, for bytes after it.
  const auto all_plain = [&](size_t i) {
    constexpr uint64_t kEach = 0x0101010101010101u;
    uint64_t w;
    std::memcpy(&w, s.data() + i, 8);
    const uint64_t other = w | (w + kEach) | (w - kEach * 0x20) | ((w ^ kEach * '"') - kEach) | ((w ^ kEach * '\\') - kEach);
    return (other & kEach * 0x80) == 0;
  };
  size_t i = 0;
  while (i + 16 <= s.size() && block_plain(i)) i += 16;
  if (i + 16 > s.size() && s.size() >= 16 && block_plain(s.size() - 16)) return s.size();
  while (i + 8 <= s.size() && all_plain(i)) i += 8;
  if (i + 8 > s.size() && s.size() >= 8 && all_plain(s.size() - 8)) return s.size();
  const auto plain = [](char c) { return c >= 0x20 && c < 0x7F && c != '"' && c != '\\'; };
  while (i < s.size() && plain(s[i])) ++i;
  return i;
}

bool is_printable(std::string_view s) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(s[i]); };
  switch (utf8_step(s)) {
    case 1: return byte(0) >= 0x20 && byte(0) != 0x7F;
    case 2: return !(byte(0) == 0xC2 && byte(1) < 0xA0) && s.substr(0, 2) != "\u061C";
    case 3: {
      const std::string_view c = s.substr(0, 3);
      return !(c == "\u200E" || c == "\u200F" || (c >= "\u2028" && c <= "\u202E") || (c >= "\u2066" && c <= "\u2069") ||
               c == "\uFEFF");
    }
    case 4: return true;
    default: return false;
  }
}

std::optional<uint64_t> parse_bytes(std::string_view text) {
  double n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n, std::chars_format::fixed);
  if (error != std::errc() || !(n >= 0)) return std::nullopt;
  std::string_view unit = trim(text.substr(static_cast<size_t>(end - text.data())));
  uint64_t whole = 0;
  if (const auto [stop, bad] = std::from_chars(text.data(), text.data() + text.size(), whole);
      bad == std::errc() && stop == text.data() + text.size())
    return whole;
  constexpr std::string_view kUnits = "KMGT";
  const size_t power =
      unit.empty() ? kUnits.npos : kUnits.find(unit.front() >= 'a' ? static_cast<char>(unit.front() - 32) : unit.front());
  if (power == kUnits.npos) return std::nullopt;
  unit.remove_prefix(1);
  if (!unit.empty() && unit != "B" && unit != "iB") return std::nullopt;
  const double bytes = std::ldexp(n, 10 * (static_cast<int>(power) + 1));
  return bytes < 1.8e19 ? std::optional(static_cast<uint64_t>(bytes)) : std::nullopt;
}

std::string quote(std::string_view s) {
  std::string out = "\"";
  for (;;) {
    const size_t plain = plain_prefix(s);
    out += s.substr(0, plain);
    s.remove_prefix(plain);
    if (s.empty()) return out += '"';
    const char c = s.front();
    const auto length = static_cast<size_t>(std::max(1, utf8_step(s)));
    if (c == '"' || c == '\\') (out += '\\') += c;
    else if (c == '\n') out += "\\n";
    else if (c == '\t') out += "\\t";
    else if (c == '\r') out += "\\r";
    else if (is_printable(s)) out += s.substr(0, length);
    else
      for (char byte : s.substr(0, length)) append_hex(out, byte);
    s.remove_prefix(length);
  }
}

std::optional<std::string> unquote(std::string_view s) {
  if (s.size() < 2 || s.front() != '"' || s.back() != '"') return std::nullopt;
  s = s.substr(1, s.size() - 2);
  std::string out;
  for (size_t i = 0; i < s.size(); ++i) {
    if (s[i] == '"') return std::nullopt;
    if (s[i] != '\\') {
      out += s[i];
      continue;
    }
    if (++i == s.size()) return std::nullopt;
    switch (s[i]) {
      case '"':
      case '\\': out += s[i]; break;
      case 'n': out += '\n'; break;
      case 't': out += '\t'; break;
      case 'r': out += '\r'; break;
      case 'x': {
        if (s.size() - i < 3 || hex_digit(s[i + 1]) < 0 || hex_digit(s[i + 2]) < 0) return std::nullopt;
        out += static_cast<char>(hex_digit(s[i + 1]) * 16 + hex_digit(s[i + 2]));
        i += 2;
        break;
      }
      default: return std::nullopt;
    }
  }
  return out;
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    before.swap(last);
    last.swap(row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

std::optional<std::string_view> closest(std::string_view word, std::span<const std::string_view> candidates) {
  constexpr size_t kLongest = 64;
  if (word.empty() || word.size() > kLongest) return std::nullopt;
  const size_t allowed = std::max<size_t>(1, word.size() / 3);
  const std::string wanted = lower(word);
  size_t best = allowed + 1;
  std::optional<std::string_view> answer;
  for (std::string_view c : candidates) {
    if (c.size() > word.size() + allowed || c.size() + allowed < word.size()) continue;
    const size_t distance = edit_distance(wanted, lower(c));
    if (distance >= best) continue;
    best = distance;
    answer = c;
  }
  return answer;
}

}  // namespace rlxc
