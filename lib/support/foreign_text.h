// Safe spellings of untrusted text (names of a model or of the user). Unescaped, a line break in a comment or a quote in a string
// could inject source code.
#pragma once
#include <compare>
#include <string>
#include <string_view>

namespace rlxc {

// Text that enters an artefact only in a spelling for its context. No spelling contains line breaks, other control characters,
// line or paragraph separators, bidirectional controls, or ill-formed UTF-8. Ordinary names are spelled as they are.
class ForeignText {
 public:
  ForeignText() = default;
  explicit ForeignText(std::string_view text) : bytes_(text) {}

  bool empty() const { return bytes_.empty(); }
  const std::string& bytes() const { return bytes_; }  // for look-ups and for JsonWriter, which escapes; never print it
  auto operator<=>(const ForeignText&) const = default;
  bool operator==(std::string_view other) const { return bytes_ == other; }

  // For a comment to the end of a line in any language, or a line of a report. Quoted as by `quote` of support/text.h unless it
  // is a plain line. Never ends with a backslash or its trigraph.
  std::string line() const;
  std::string quoted() const;                             // always quoted
  std::string c_string() const;                           // literal of C, C++ or CUDA with the same bytes
  std::string python_string(char quotation = '"') const;  // ill-formed UTF-8 becomes U+FFFD
  std::string markdown() const;                           // table cell, or a code span without its backticks
  std::string shell_word() const;                         // one argument of a bash command line
  std::string identifier(std::string_view prefix) const;  // ASCII, at most kIdentifier bytes, begins with a letter
  static constexpr size_t kIdentifier = 100;

 private:
  std::string bytes_;
};

// Content or a double-quoted attribute of XML or HTML. Characters not allowed in XML become U+FFFD.
std::string markup(std::string_view text);

// Text of several lines for a terminal. Lines after the first are prefixed by `indent`. Control characters are escaped as in
// `quote`.
std::string terminal_text(std::string_view text, std::string_view indent);

}  // namespace rlxc
