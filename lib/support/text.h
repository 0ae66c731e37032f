// Small text helpers: all byte-wise and locale-free.
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

// The pieces between separators: one more than there are separators, so "" gives {""} and "a," gives {"a", ""}.
std::vector<std::string_view> split(std::string_view, char separator);

std::string system_error_text(int error);  // of errno

std::string_view trim(std::string_view);  // without spaces, tabs and line ends at both ends

// The length of the well-formed UTF-8 sequence that `text` (not empty) starts with, or minus the length of the longest prefix of
// one (at least 1) that U+FFFD should replace (Unicode 15, table 3-7 and "substitution of maximal subparts").
int utf8_step(std::string_view text);

// Does `text` (not empty) start with a character that has a form of its own? Not so: control characters, separators of lines and
// paragraphs, marks of writing direction (which show text in another order), U+FEFF, ill-formed UTF-8.
bool is_printable(std::string_view text);

// In double quotes with \" \\ \n \t \r and \xNN for the bytes of what else is not printable, so that any name fits on one line.
std::string quote(std::string_view);

// The bytes behind a text that `quote` wrote; nullopt if it is not one.
std::optional<std::string> unquote(std::string_view);

// Insertions, deletions, substitutions and swaps of neighbours (optimal string alignment): O(|a| |b|) time.
size_t edit_distance(std::string_view a, std::string_view b);

// What was probably meant: the candidate (the first of equals) at most max(1, |word| / 3) edits away, upper and lower case
// being one. Words beyond 64 bytes have no answer.
std::optional<std::string_view> closest(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace rlxc
