#include "support/foreign_text.h"

#include <doctest/doctest.h>

#include <type_traits>

#include "support/text.h"

using namespace rlxc;

static_assert(!std::is_convertible_v<ForeignText, std::string> && !std::is_convertible_v<ForeignText, std::string_view>);
static_assert(!std::is_convertible_v<std::string, ForeignText> && !std::is_convertible_v<const char*, ForeignText>);

namespace {

std::string line(std::string_view s) { return ForeignText(s).line(); }
std::string c(std::string_view s) { return ForeignText(s).c_string(); }
std::string python(std::string_view s) { return ForeignText(s).python_string(); }

}  // namespace

TEST_CASE("ordinary names are spelled as they are") {
  for (std::string_view name :
       {"conv_1", "/encoder/layer.0/MatMul:0", "x y", "gr\xc3\xbc\xc3\x9f", "args[0]", "a\\b", "what?\?/x", "%7"}) {
    CHECK(line(name) == name);
    CHECK(ForeignText(name).markdown() == name);
  }
  CHECK(c("conv_1") == "\"conv_1\"");
  CHECK(python("conv_1") == "\"conv_1\"");
  CHECK(ForeignText("conv_1").python_string('\'') == "'conv_1'");
  CHECK(ForeignText("batch=1").shell_word() == "batch=1");
  CHECK(ForeignText("conv_1").identifier("model_") == "conv_1");
}

TEST_CASE("a line has no break and no continuation") {
  CHECK(line("a\n#error") == "\"a\\n#error\"");
  CHECK(line("a\\") == "\"a\\\\\"");
  CHECK(line("a\\  ") == "\"a\\\\  \"");
  CHECK(line("a?\?/") == "\"a?\?/\"");
  for (std::string_view broken :
       {"\r", "\v", "\f", "\u0085", "\u2028", "\u2029", "\u202e", "\u2066", "\u200f", "\x1b[2J", "\x7f", "\xff"}) {
    const std::string name = "a" + std::string(broken) + "b", spelled = line(name);
    CHECK(spelled.find(broken) == std::string::npos);
    CHECK(unquote(spelled) == name);
  }
  CHECK(line(std::string_view("\0", 1)) == "\"\\x00\"");
}

TEST_CASE("strings of C have the same bytes") {
  CHECK(c("\x01"
          "2") == "\"\\0012\"");  // a following digit is not part of the escape
  CHECK(c("a\"\\\n") == "\"a\\\"\\\\\\n\"");
  CHECK(c("?\?/") == "\"?\\?/\"");
  CHECK(c("?\?\?") == "\"?\\?\\?\"");
  CHECK(c("\u2028\xff") == "\"\\342\\200\\250\\377\"");
}

TEST_CASE("strings of Python have the same characters") {
  CHECK(python("a\"'\\\n") == "\"a\\\"'\\\\\\u000a\"");
  CHECK(ForeignText("'\"").python_string('\'') == "'\\'\"'");
  CHECK(python("\u0085\u2028\ufeff") == "\"\\u0085\\u2028\\ufeff\"");
  CHECK(python("\xff") == "\"\ufffd\"");
}

TEST_CASE("markdown, shell words and identifiers") {
  CHECK(ForeignText("a|`<b>").markdown() == "a\\x7c\\x60\\x3cb>");
  CHECK(ForeignText("").shell_word() == "''");
  CHECK(ForeignText("$(x) y").shell_word() == "'$(x) y'");
  CHECK(ForeignText("it's").shell_word() == "'it'\\''s'");
  CHECK(ForeignText("it's\n").shell_word() == "$'it\\'s\\012'");
  CHECK(ForeignText("a-b.c").identifier("model_") == "a_b_c");
  CHECK(ForeignText("1").identifier("model_") == "model_1");
  CHECK(ForeignText("").identifier("model_") == "model_");
  CHECK(ForeignText(std::string(5000, 'a')).identifier("m").size() == ForeignText::kIdentifier);
}

TEST_CASE("markup and text for terminals") {
  CHECK(markup("</script>\"&\x01\xff") == "&lt;/script&gt;&quot;&amp;\ufffd\ufffd");
  CHECK(terminal_text("a\x1b[2J\nerror[RLX0900]: b", "  ") == "a\\x1b[2J\n  error[RLX0900]: b");
}
