#include "support/json_writer.h"

#include <doctest/doctest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "support/output_file.h"
#include "support/temp_dir.h"

using namespace rlxc;

template <class Write>
static std::string written(Write write) {
  std::string out;
  JsonWriter json(out);
  write(json);
  json.flush();
  return out;
}

TEST_CASE("block and line layouts") {
  const std::string out = written([](JsonWriter& j) {
    j.begin_object();
    j.key("name").string("m");
    j.key("nodes").begin_array();
    for (int i = 0; i < 2; ++i) {
      j.begin_object(JsonLayout::Line).key("id").integer(i).key("in").begin_array(JsonLayout::Block);
      j.unsigned_integer(7).number(0.5).end_array().key("x").begin_object().end_object().end_object();
    }
    j.end_array();
    j.key("none").begin_array().end_array();
    j.key("ok").boolean(true).key("no").null().key("raw").raw("[1]");
    j.end_object().finish();
  });
  CHECK(out ==
        "{\n"
        " \"name\": \"m\",\n"
        " \"nodes\": [\n"
        "  {\"id\": 0, \"in\": [7, 0.5], \"x\": {}},\n"
        "  {\"id\": 1, \"in\": [7, 0.5], \"x\": {}}\n"
        " ],\n"
        " \"none\": [],\n"
        " \"ok\": true,\n"
        " \"no\": null,\n"
        " \"raw\": [1]\n"
        "}\n");
}

TEST_CASE("strings are escaped and always valid UTF-8") {
  const auto text = [](std::string_view s) { return written([&](JsonWriter& j) { j.string(s); }); };
  CHECK(text({}) == "\"\"");
  CHECK(text("a\"b\\c\n\t\r\b\f") == R"("a\"b\\c\n\t\r\b\f")");
  CHECK(text(std::string_view("\0\x1f\x7f", 3)) == "\"\\u0000\\u001f\x7f\"");
  CHECK(text("\xe2\x82\xac") == "\"\xe2\x82\xac\"");
  CHECK(text("a\xff"
             "b\xe2\x82") ==
        "\"a\xef\xbf\xbd"
        "b\xef\xbf\xbd\"");
  std::string all;
  for (int i = 0; i < 0x10000; ++i) (all += static_cast<char>(i)) += static_cast<char>(i >> 8);
  CHECK(nlohmann::json::parse(text(all)).is_string());
  std::string ascii;
  for (int i = 0; i < 300000; ++i) ascii += static_cast<char>(i % 128);
  CHECK(nlohmann::json::parse(text(ascii)).get<std::string>() == ascii);
}

TEST_CASE("numbers") {
  const std::string out = written([](JsonWriter& j) {
    j.begin_array(JsonLayout::Line);
    j.number(0.1).number(0.1f).number(-0.0).number(std::numeric_limits<double>::infinity());
    j.number(-std::numeric_limits<float>::infinity()).number(std::numeric_limits<double>::quiet_NaN());
    j.integer(std::numeric_limits<int64_t>::min()).unsigned_integer(std::numeric_limits<uint64_t>::max());
    j.end_array();
  });
  CHECK(out == "[0.1, 0.1, -0, \"inf\", \"-inf\", \"nan\", -9223372036854775808, 18446744073709551615]");
}

TEST_CASE("a document larger than the buffer reaches its file whole") {
  test::TempDir dir;
  Diagnostics d;
  const auto fill = [](JsonWriter& j) {
    j.begin_array();
    for (int i = 0; i < 20000; ++i)
      j.begin_object(JsonLayout::Line).key("name").string("/layer." + std::to_string(i)).end_object();
    j.end_array().finish();
  };
  auto file = OutputFile::create(dir / "a.json", d);
  REQUIRE(file);
  {
    JsonWriter json(*file);
    fill(json);
  }
  const std::string expected = written(fill);
  CHECK(file->size() == expected.size());
  Sha256 sha;
  sha.update(bytes_of(expected));
  CHECK(file->sha256_hex() == sha.hex());
  CHECK(nlohmann::json::parse(expected).size() == 20000);
}
