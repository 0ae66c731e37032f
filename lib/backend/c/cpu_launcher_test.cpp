#include "backend/c/cpu_launcher.h"

#include <doctest/doctest.h>

#include "support/text.h"

using namespace rlxc;

TEST_CASE("what repeats in sizes is computed once") {
  DimTable dims;
  Dim d = dims.symbol("n");
  for (int64_t i = 2; i < 12; ++i)  // twice as long each time
    d = dims.add(dims.floor_div(dims.add(d, Dim(1)), Dim(i)), dims.mod(dims.add(d, Dim(i)), Dim(i + 1)));
  CSizes sizes(dims, {ForeignText("n")}, {});
  CHECK(sizes(d) == "n[0]");
  CHECK(sizes(dims.mul(Dim(4), dims.symbol("n"))) == "n[1]");
  const std::string table = sizes.table();
  size_t code = 0;
  for (std::string_view line : split(table, '\n')) {
    line = line.substr(0, line.find("//"));
    CHECK(line.size() < 1000);
    code += line.size();
  }
  CHECK(code < 20'000);
  CHECK(table.find("const int64_t part_0 = ") != std::string::npos);
  CHECK(table.find("  n[1] = rlxc_mul(&bad, 4, s[0]);  // 4*n\n") != std::string::npos);
}
