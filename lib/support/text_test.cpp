#include "support/text.h"

#include <doctest/doctest.h>

using namespace rlxc;
using Parts = std::vector<std::string_view>;

TEST_CASE("join, split and trim") {
  CHECK(join(Parts{"a", "b", "c"}, ", ") == "a, b, c");
  CHECK(join(Parts{}, ", ").empty());
  CHECK(split("a,b,,c", ',') == Parts{"a", "b", "", "c"});
  CHECK(split("", ',') == Parts{""});
  CHECK(split("a,", ',') == Parts{"a", ""});
  CHECK(trim(" \ta b\n") == "a b");
  CHECK(trim(" \n").empty());
}

TEST_CASE("quoted names stay on one line and come back") {
  CHECK(quote("like this\n") == "\"like this\\n\"");
  CHECK(quote("a\"\\\x01\x7f") == "\"a\\\"\\\\\\x01\\x7f\"");
  CHECK(quote("gr\xc3\xbc\xc3\x9f") == "\"gr\xc3\xbc\xc3\x9f\"");
  CHECK(quote("\xff\xc3") == "\"\\xff\\xc3\"");
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  CHECK(unquote(quote(all)) == all);
  for (std::string_view bad : {"", "\"", "a", "\"\\\"", "\"a\"b\"", "\"\\q\"", "\"\\x1\"", "\"\\x1g\""})
    CHECK_FALSE(unquote(bad));
}

TEST_CASE("UTF-8 sequences are those of the Unicode standard") {
  CHECK(utf8_step("a") == 1);
  CHECK(utf8_step("\xc3\xbc") == 2);
  CHECK(utf8_step("\xe2\x82\xac") == 3);
  CHECK(utf8_step("\xf0\x9f\x98\x80") == 4);
  CHECK(utf8_step("\xf4\x8f\xbf\xbf") == 4);
  CHECK(utf8_step("\xc0\x80") == -1);          // overlong
  CHECK(utf8_step("\xe0\x9f\xbf") == -1);      // overlong
  CHECK(utf8_step("\xed\xa0\x80") == -1);      // surrogate
  CHECK(utf8_step("\xf4\x90\x80\x80") == -1);  // above U+10FFFF
  CHECK(utf8_step("\x80") == -1);
  CHECK(utf8_step("\xe2\x82") == -2);
  CHECK(utf8_step("\xf0\x9f\x98!") == -3);
}

TEST_CASE("a plain prefix ends before the first byte that is not plain") {
  for (int c = 0; c < 256; ++c)
    for (size_t before = 0; before < 20; ++before)
      for (size_t after = 0; after < 20; ++after) {
        const std::string s = std::string(before, '~') + static_cast<char>(c) + std::string(after, ' ');
        const bool is_plain = c >= 0x20 && c < 0x7F && c != '"' && c != '\\';
        if (plain_prefix(s) != (is_plain ? s.size() : before)) FAIL_CHECK("byte ", c, " behind ", before, " bytes of ", s.size());
      }
  CHECK(plain_prefix("") == 0);
}

TEST_CASE("a misspelt word finds its neighbour") {
  CHECK(edit_distance("", "abc") == 3);
  CHECK(edit_distance("kitten", "sitting") == 3);
  CHECK(edit_distance("ab", "ba") == 1);
  const Parts ops{"MatMul", "MaxPool", "Softmax", "Add"};
  CHECK(closest("Matmull", ops) == "MatMul");
  CHECK(closest("SOFTMAX", ops) == "Softmax");
  CHECK(closest("Sofmtax", ops) == "Softmax");
  CHECK_FALSE(closest("Conv", ops));
  CHECK_FALSE(closest("", ops));
}
