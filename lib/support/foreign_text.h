// Names and other text of a model or of the user are hostile until shown otherwise: a line break in a comment, or a quote in a
// string, would make source code of them. Here they are spelled for each place of an artefact that they can stand in.
#pragma once
#include <compare>
#include <string>
#include <string_view>

namespace rlxc {

// Text that becomes part of an artefact only by a spelling. No spelling contains a line break or another control character,
// a line or paragraph separator, a mark of writing direction, or ill-formed UTF-8. Spellings of ordinary names are the names.
class ForeignText {
 public:
  ForeignText() = default;
  explicit ForeignText(std::string_view text) : bytes_(text) {}

  bool empty() const { return bytes_.empty(); }
  const std::string& bytes() const { return bytes_; }  // for look-ups, and for JsonWriter, which escapes: never to be printed
  auto operator<=>(const ForeignText&) const = default;
  bool operator==(std::string_view other) const { return bytes_ == other; }

  // A comment to the end of a line in any language, or one line of a report. In double quotes, as by `quote` of support/text.h,
  // where it is no plain line; a backslash or the trigraph of one never ends it.
  std::string line() const;
  std::string quoted() const;                             // always in these quotes
  std::string c_string() const;                           // a literal of C, C++ or CUDA of the same bytes
  std::string python_string(char quotation = '"') const;  // U+FFFD stands for ill-formed UTF-8
  std::string markdown() const;                           // a cell of a table, or a code span without its backticks
  std::string shell_word() const;                         // one argument of a command line of bash
  std::string identifier(std::string_view prefix) const;  // ASCII, at most kIdentifier bytes; begins with a letter
  static constexpr size_t kIdentifier = 100;

 private:
  std::string bytes_;
};

// Content or an attribute (in double quotes) of XML or HTML. Characters that XML cannot hold become U+FFFD.
std::string markup(std::string_view text);

// Text of several lines for a terminal: the first line is not indented, `indent` stands before each other one. Control
// characters are written as `quote` does.
std::string terminal_text(std::string_view text, std::string_view indent);

}  // namespace rlxc
