// Text helpers: bytewise and locale-independent.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rlxc {

template <class Range>
std::string join(const Range& parts, std::string_view separator) {
  std::string out;
  bool first = true;
  for (const auto& part : parts) {
    if (!first) out += separator;
    first = false;
    out += part;
  }
  return out;
}

// The parts between separators: "" gives {""} and "a," gives {"a", ""}.
std::vector<std::string_view> split(std::string_view, char separator);

std::string system_error_text(int error);  // for an errno value

std::string_view trim(std::string_view);  // without leading and trailing spaces, tabs and line ends

// The length of the well-formed UTF-8 sequence at the start of `text` (not empty), or minus the length of the maximal subpart (at
// least 1) to replace by U+FFFD (Unicode 15, table 3-7 and "substitution of maximal subparts").
int utf8_step(std::string_view text);

// The length of the prefix that is printable ASCII without quotation marks and backslashes: most names are that alone.
size_t plain_prefix(std::string_view text);

// Returns whether `text` (not empty) starts with a visible character: no control character, line or paragraph separator,
// bidirectional control, U+FEFF or ill-formed UTF-8.
bool is_printable(std::string_view text);

// A number of bytes: 4096, 1K, 8MiB, 2 GiB, 1.5GB (units of 1024; K, M, G and T alone, too). nullopt for other texts and beyond
// 64 bits.
std::optional<uint64_t> parse_bytes(std::string_view);

// In double quotes, with \" \\ \n \t \r and \xNN for bytes that are not printable, so that any name fits on one line.
std::string quote(std::string_view);

// The inverse of `quote`; nullopt for other texts.
std::optional<std::string> unquote(std::string_view);

// Insertions, deletions, substitutions and swaps of neighbours (optimal string alignment). O(|a| |b|) time.
size_t edit_distance(std::string_view a, std::string_view b);

// The closest candidate (the first of equals) within max(1, |word| / 3) edits, ignoring case. Nullopt for words beyond 64 bytes.
std::optional<std::string_view> closest(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace rlxc
