#include "plan/csv.h"

#include <doctest/doctest.h>

#include "support/diagnostics.h"

using namespace rlxc;
using namespace rlxc::plan;

TEST_CASE("the four columns are read in any order and written with offsets") {
  BufferTable t;
  Diagnostics d;
  REQUIRE(read_csv("size, id,lower,upper\r\n16,a,-3,5\r\n\r\n32,b,5,9", &t, d));
  REQUIRE(t.problem.buffers.size() == 2);
  CHECK(t.problem.buffers[0].start == -3);
  CHECK(t.problem.buffers[1].size == 32);
  CHECK(t.problem.buffers[0].align == 1);
  std::string written;
  write_csv(t, {0, 7}, [&](std::string_view piece) { written += piece; });
  CHECK(written == "id,lower,upper,size,offset\na,-3,5,16,0\nb,5,9,32,7\n");
}

TEST_CASE("every malformed line is reported with its number") {
  BufferTable t;
  Diagnostics d("b.csv");
  CHECK_FALSE(read_csv("id,lower,upper,size\na,0,1,8\nb,0,1\nc,x,1,-8\na,0,1,8\ne,5,2,8\nf,0,1,99999999999999999999\n", &t, d));
  const std::string text = d.text();
  for (const char* part : {"line 3: 3 fields", "line 4: lower is \"x\"", "line 4: size is \"-8\"",
                           "line 5: id \"a\" was already used in line 2", "line 6: upper 2 is below lower 5", "line 7: size is"})
    CHECK_MESSAGE(text.find(part) != std::string::npos, part);
  CHECK(d.errors() == 6);
}

TEST_CASE("a repeated id behind a blank one is reported with its lines") {
  BufferTable t;
  Diagnostics d("b.csv");
  CHECK_FALSE(read_csv("id,lower,upper,size\nb,0,1,8\n ,0,1,8\nb,0,1,8\n", &t, d));
  CHECK_MESSAGE(d.text().find("line 4: id \"b\" was already used in line 2") != std::string::npos, d.text());
}

TEST_CASE("a missing header, a missing column and an empty file are reported") {
  for (const char* text : {"", "\n \n", "0,1,2,3\n", "id,lower,upper\na,0,1\n"}) {
    BufferTable t;
    Diagnostics d;
    CHECK_FALSE(read_csv(text, &t, d));
    CHECK_FALSE(d.ok());
  }
}

TEST_CASE("a sum of sizes beyond the limit is refused") {
  BufferTable t;
  Diagnostics d;
  CHECK_FALSE(read_csv("id,lower,upper,size\na,0,1,9223372036854775807\nb,0,1,9223372036854775807\n", &t, d));
  CHECK(d.text().find("2^62") != std::string::npos);
}
