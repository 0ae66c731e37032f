#include "support/json_reader.h"

#include <doctest/doctest.h>

#include <limits>
#include <string>

#include "support/json_writer.h"
#include "support/random.h"

using namespace rlxc;

namespace {

std::string fault(std::string_view text) {
  JsonReader r(text);
  r.skip() && r.finish();
  if (r.ok()) return "";
  return LineIndex(text).place(r.error_at()) + ": " + r.error();
}

// Reads any value and writes it again.
void copy(JsonReader& r, JsonWriter& w) {
  std::string text;
  double number = 0;
  bool flag = false;
  switch (r.peek()) {
    case JsonReader::Kind::Object:
      w.begin_object();
      r.begin_object();
      for (std::string_view key; r.next_key(&key);) w.key(key), copy(r, w);
      w.end_object();
      break;
    case JsonReader::Kind::Array:
      w.begin_array();
      r.begin_array();
      while (r.next_item()) copy(r, w);
      w.end_array();
      break;
    case JsonReader::Kind::String: r.string(&text), w.string(text); break;
    case JsonReader::Kind::Number: r.number(&number), w.number(number); break;
    case JsonReader::Kind::Bool: r.boolean(&flag), w.boolean(flag); break;
    case JsonReader::Kind::Null: r.null(), w.null(); break;
    case JsonReader::Kind::Bad: r.skip(); break;
  }
}

void random_value(test::Random& random, JsonWriter& w, int depth) {
  switch (random.integer(0, depth > 4 ? 4 : 6)) {
    case 0: w.null(); break;
    case 1: w.boolean(random.chance(0.5)); break;
    case 2: w.number(random.normal() * std::pow(10, static_cast<double>(random.integer(-300, 300)))); break;
    case 3: w.number(static_cast<double>(random.integer(-100, 100))); break;
    case 4: {
      std::string s;
      for (int64_t i = random.integer(0, 10); i > 0; --i)
        s += std::string_view("a\"\\/\n\x01 \xC3\xA9\xF0\x9F\x98\x80").substr(static_cast<size_t>(random.integer(0, 7)), 1);
      w.string(s);
      break;
    }
    case 5:
      w.begin_array(random.chance(0.5) ? JsonLayout::Line : JsonLayout::Block);
      for (int64_t i = random.integer(0, 4); i > 0; --i) random_value(random, w, depth + 1);
      w.end_array();
      break;
    case 6:
      w.begin_object(random.chance(0.5) ? JsonLayout::Line : JsonLayout::Block);
      for (int64_t i = random.integer(0, 40); i > 0; --i) w.key("k\n" + std::to_string(i)), random_value(random, w, depth + 1);
      w.end_object();
      break;
  }
}

}  // namespace

TEST_CASE("what the writer wrote reads back") {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    test::Random random(seed);
    std::string text, again, compact;
    {
      JsonWriter w(text);
      random_value(random, w, 0);
    }
    JsonReader r(text);
    {
      JsonWriter w(again);
      copy(r, w);
    }
    REQUIRE_MESSAGE(r.finish(), r.error() << " in " << text);
    JsonReader second(again);
    JsonWriter w(compact);
    copy(second, w);
    CHECK(second.finish());
    w.flush();
    CHECK(compact == again);
    // Every truncation is an error, unless it cuts a number between digits.
    for (size_t cut = 0; cut < text.size() && text.front() != '-' && (text.front() < '0' || text.front() > '9');
         cut += 1 + text.size() / 50)
      CHECK_FALSE(fault(std::string_view(text).substr(0, cut)).empty());
  }
}

TEST_CASE("typed reads") {
  int64_t i = 0;
  uint64_t u = 0;
  double d = 0;
  std::string s;
  CHECK((JsonReader("-9223372036854775808").integer(&i) && i == std::numeric_limits<int64_t>::min()));
  CHECK((JsonReader(" 18446744073709551615 ").unsigned_integer(&u) && u == std::numeric_limits<uint64_t>::max()));
  for (const char* bad : {"9223372036854775808", "1.0", "1e3", "true", "\"1\"", "-", "01", "1.", ".5", "1e", ""})
    CHECK_FALSE(JsonReader(bad).integer(&i));
  CHECK_FALSE(JsonReader("-1").unsigned_integer(&u));
  CHECK((JsonReader("\"-inf\"").number(&d) && d == -std::numeric_limits<double>::infinity()));
  CHECK((JsonReader("-0.0").number(&d) && d == 0 && std::signbit(d)));
  CHECK_FALSE(JsonReader("1e999").number(&d));
  CHECK_FALSE(JsonReader("\"infinity\"").number(&d));
  CHECK((JsonReader(R"("a\u00e9\ud83d\ude00\n\/")").string(&s) && s == "a\xC3\xA9\xF0\x9F\x98\x80\n/"));
  std::string_view raw;
  JsonReader r(R"({"a": [1, {"b": "}"}], "c": 2})");
  std::string_view key;
  REQUIRE((r.begin_object() && r.next_key(&key)));
  CHECK((r.raw(&raw) && raw == R"([1, {"b": "}"}])"));
  CHECK((r.next_key(&key) && key == "c" && r.skip() && !r.next_key(&key) && r.finish()));
}

TEST_CASE("faults have a place") {
  CHECK(fault("{\"a\": 1,\n \"a\": 2}") == "line 2 column 2: the key \"a\" stands twice in one object");
  CHECK(fault("[1, 2") == "line 1 column 6: the text ends where ',' or ']' should be");
  CHECK(fault("[1 2]") == "line 1 column 4: expected ',' or ']'");
  CHECK(fault("{a: 1}") == "line 1 column 2: expected a key in double quotes");
  CHECK(fault("[1] x") == "line 1 column 5: text after the end of the value");
  CHECK(fault("[nul]") == "line 1 column 2: expected a value");
  CHECK(fault("\"a\tb\"") == "line 1 column 3: a control character stands in a string as it is");
  CHECK(fault("\"\xFF\"") == "line 1 column 2: ill-formed UTF-8");
  CHECK(fault("\"\\ud800\"").ends_with("half of a surrogate pair in a string"));
  CHECK(fault("\"\\x\"").ends_with("malformed escape in a string"));
  CHECK(fault("[1,]").ends_with("expected a value"));
  CHECK(fault("") == "line 1 column 1: the text ends where a value should be");
  CHECK(fault("\"\\").ends_with("the text ends within a string"));
}

TEST_CASE("deep nesting is refused, wide objects are read in linear time") {
  CHECK(fault(std::string(100'000, '[')).ends_with("nested deeper than 256 levels"));
  std::string wide = "{";
  for (int i = 0; i < 100'000; ++i) wide += "\"" + std::to_string(i) + "\": 0, ";
  CHECK(fault(wide + "\"x\": 0}").empty());
  CHECK(fault(wide + "\"77777\": 0}").ends_with("the key \"77777\" stands twice in one object"));
}
