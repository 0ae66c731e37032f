#include "support/foreign_text.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "support/text.h"

namespace rlxc {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

bool is_alphanumeric(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }

void append_digits(std::string& out, uint32_t value, uint32_t base, int count) {
  std::string digits(static_cast<size_t>(count), '0');
  for (int i = count; i-- > 0; value /= base) digits[static_cast<size_t>(i)] = "0123456789abcdef"[value % base];
  out += digits;
}

uint32_t code_point(std::string_view c) {
  uint32_t v = static_cast<uint8_t>(c[0]);
  if (c.size() > 1) v &= 0xFFu >> (c.size() + 1);
  for (char tail : c.substr(1)) v = v << 6 | (static_cast<uint8_t>(tail) & 0x3F);
  return v;
}

// Calls `plain` for each printable character and `other` for each control character (length true) or ill-formed sequence (false).
template <class Plain, class Other>
void each_character(std::string_view s, Plain plain, Other other) {
  while (!s.empty()) {
    const int step = utf8_step(s);
    const std::string_view c = s.substr(0, static_cast<size_t>(std::abs(step)));
    is_printable(s) ? plain(c) : other(c, step > 0);
    s.remove_prefix(c.size());
  }
}

// C compilers join a line that ends with a backslash or its trigraph with the next; gcc ignores spaces after it.
bool continues_line(std::string_view s) {
  s = s.substr(0, s.find_last_not_of(' ') + 1);
  return s.ends_with('\\') || s.ends_with("?\?/");
}

bool is_printable_text(std::string_view s) {
  for (s.remove_prefix(plain_prefix(s)); !s.empty(); s.remove_prefix(plain_prefix(s))) {
    if (!is_printable(s)) return false;
    s.remove_prefix(static_cast<size_t>(utf8_step(s)));
  }
  return true;
}

}  // namespace

std::string ForeignText::line() const { return is_printable_text(bytes_) && !continues_line(bytes_) ? bytes_ : quoted(); }

std::string ForeignText::quoted() const { return quote(bytes_); }

std::string ForeignText::c_string() const {
  std::string out = "\"";
  const auto plain = [&](std::string_view c) {
    if (c == "\"" || c == "\\" || (c == "?" && out.ends_with('?'))) out += '\\';  // prevents trigraphs
    out += c;
  };
  // Always three octal digits, so that a following digit is not part of the escape.
  const auto other = [&](std::string_view c, bool) {
    for (char byte : c) {
      out += '\\';
      if (const size_t letter = std::string_view("\n\t\r").find(byte); letter != std::string_view::npos) out += "ntr"[letter];
      else append_digits(out, static_cast<uint8_t>(byte), 8, 3);
    }
  };
  each_character(bytes_, plain, other);
  return out + '"';
}

std::string ForeignText::python_string(char quotation) const {
  std::string out(1, quotation);
  const auto plain = [&](std::string_view c) {
    if (c[0] == quotation || c == "\\") out += '\\';
    out += c;
  };
  const auto other = [&](std::string_view c, bool well_formed) {
    if (!well_formed) return void(out += kReplacement);
    out += "\\u";  // all are below U+10000
    append_digits(out, code_point(c), 16, 4);
  };
  each_character(bytes_, plain, other);
  return out + quotation;
}

std::string ForeignText::markdown() const {
  std::string out;
  for (char c : line()) {
    if (c == '|' || c == '`' || c == '<') {
      out += "\\x";
      append_digits(out, static_cast<uint8_t>(c), 16, 2);
    } else out += c;
  }
  return out;
}

std::string ForeignText::shell_word() const {
  const auto safe = [](char c) { return is_alphanumeric(c) || std::string_view("_./:=@%+,-").find(c) != std::string_view::npos; };
  if (!bytes_.empty() && std::ranges::all_of(bytes_, safe)) return bytes_;
  std::string out = is_printable_text(bytes_) ? "'" : "$'";
  const bool escapes = out[0] == '$';
  const auto plain = [&](std::string_view c) {
    if (escapes && (c == "'" || c == "\\")) out += '\\';
    out += c == "'" && !escapes ? std::string_view("'\\''") : c;
  };
  const auto other = [&](std::string_view c, bool) {
    for (char byte : c) {
      out += '\\';
      append_digits(out, static_cast<uint8_t>(byte), 8, 3);
    }
  };
  each_character(bytes_, plain, other);
  return out + "'";
}

std::string ForeignText::identifier(std::string_view prefix) const {
  std::string s = bytes_;
  for (char& c : s)
    if (!is_alphanumeric(c)) c = '_';
  if (s.empty() || s[0] == '_' || (s[0] >= '0' && s[0] <= '9')) s.insert(0, prefix);
  return s.substr(0, kIdentifier);
}

std::string markup(std::string_view s) {
  std::string out;
  for (size_t length; !s.empty(); s.remove_prefix(length)) {
    const int step = utf8_step(s);
    length = static_cast<size_t>(std::abs(step));
    const char c = s.front();
    const bool allowed = step > 0 && (static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\t');
    const bool noncharacter = length == 3 && (s.substr(0, 3) == "\xEF\xBF\xBE" || s.substr(0, 3) == "\xEF\xBF\xBF");
    if (!allowed || noncharacter) out += kReplacement;
    else if (c == '&') out += "&amp;";
    else if (c == '<') out += "&lt;";
    else if (c == '>') out += "&gt;";
    else if (c == '"') out += "&quot;";
    else out += s.substr(0, length);
  }
  return out;
}

std::string terminal_text(std::string_view s, std::string_view indent) {
  std::string out;
  for (std::string_view line : split(s, '\n')) {
    if (line.data() != s.data()) (out += '\n') += indent;
    each_character(
        line, [&](std::string_view c) { out += c; },
        [&](std::string_view c, bool) {
          if (c == "\t") return void(out += c);
          const std::string escaped = quote(c);
          out += std::string_view(escaped).substr(1, escaped.size() - 2);
        });
  }
  return out;
}

}  // namespace rlxc
