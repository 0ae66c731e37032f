#include "eval/pattern.h"

#include <doctest/doctest.h>

using rlxc::eval::Pattern;

namespace {

bool matches(std::string_view pattern, std::string_view text) {
  std::string message;
  const auto p = Pattern::parse(pattern, &message);
  REQUIRE_MESSAGE(p, pattern << ": " << message);
  return p->matches(text);
}
std::string fault(std::string_view pattern) {
  std::string message;
  CHECK_FALSE(Pattern::parse(pattern, &message));
  return message;
}

}  // namespace

TEST_CASE("patterns match whole strings") {
  CHECK(matches("abc", "abc"));
  CHECK_FALSE(matches("abc", "abcd"));
  CHECK_FALSE(matches("abc", "xabc"));
  CHECK(matches("", ""));
  CHECK(matches("a|bc|", ""));
  CHECK(matches("a|bc|", "bc"));
  CHECK_FALSE(matches("a|bc", "abc"));
  CHECK(matches("(ab)*c+d?", "ababccd"));
  CHECK(matches("(ab)*c+d?", "c"));
  CHECK_FALSE(matches("(ab)*c+d?", "abd"));
  CHECK(matches("x{2,3}", "xxx"));
  CHECK_FALSE(matches("x{2,3}", "x"));
  CHECK_FALSE(matches("x{2,3}", "xxxx"));
  CHECK(matches("(a|b){2}", "ba"));
  CHECK(matches("x{3,}", "xxxxxx"));
  CHECK(matches("x{,3}", "x{,3}"));
  CHECK(matches("a+?b*?", "aabb"));
  CHECK(matches("(?:ab)+(?P<name>c)", "ababc"));
}

TEST_CASE("classes, escapes and positions") {
  CHECK(matches(R"([a-cx-]+)", "ab-cx"));
  CHECK_FALSE(matches(R"([^a-c]+)", "dab"));
  CHECK(matches(R"([]a]+)", "]a]"));
  CHECK(matches(R"(\d{4}-\d\d)", "2026-11"));
  CHECK(matches(R"(\w+\s\S+)", "a_1 +-"));
  CHECK(matches("h.llo", "h\xc3\xa9llo"));  // one code point
  CHECK(matches("[\xc3\xa0-\xc3\xaf]", "\xc3\xa9"));
  CHECK_FALSE(matches("a.b", "a\nb"));
  CHECK(matches(R"(www\.[\w.-]+\.\bcom\b)", "www.google.com"));
  CHECK_FALSE(matches(R"(www\.[\w.-]+\.\bcom\b)", "www.google.comx"));
  const char* mail = R"((\W|^)[\w.\-]{0,25}@(yahoo|gmail)\.com(\W|$))";
  CHECK(matches(mail, "account@gmail.com"));
  CHECK_FALSE(matches(mail, "not email"));
  CHECK_FALSE(matches(mail, "account@hotmail.com"));
  CHECK(matches("^a$", "a"));
  CHECK_FALSE(matches("a^b", "ab"));
  CHECK(matches(R"(a\Bb)", "ab"));
}

TEST_CASE("what backtracking takes forever for takes no time") {
  CHECK_FALSE(matches("(a*)*b", std::string(5000, 'a')));
  CHECK(matches("(a?){100}a{100}", std::string(100, 'a')));
}

TEST_CASE("faults of patterns") {
  for (const char* bad : {"(a", "a)", "[a", "*a", "a**|+", "\\", "[b-a]", "(?i)a", "(?=a)", "(?<=a)", "\\1", "x{3,2}", "x{2000}"})
    CHECK_MESSAGE(!fault(bad).empty(), bad);
  CHECK_FALSE(fault("((((x{999}){999}){999}){999})").empty());
  CHECK_FALSE(fault(std::string(1000, '(')).empty());
}
