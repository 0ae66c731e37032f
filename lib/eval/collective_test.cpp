#include <doctest/doctest.h>

#include "eval/value.h"
#include "ir/text.h"
#include "ir/verify.h"

using namespace rlxc;

namespace {

// The output of a graph of these lines, whose last value is %9.
std::vector<double> value_of(const std::string& lines, Diagnostics& d) {
  const auto m = parse_text("module \"m\" mir {\ngraph @main {\n" + lines + "return %9 \"y\"\n}\n}\n", d);
  if (!m || !verify(*m, d)) return {};
  const auto out = eval::evaluate(*m, {}, d);
  return out ? eval::numbers((*out)[0]) : std::vector<double>();
}

constexpr std::string_view kMesh = "mesh = \"a=2,b=3\", ";

std::string rank_gathered(const std::string& along, const std::string& change) {
  const std::string group = std::string(kMesh) + "along = [" + along + "]";
  return "%0 = device_index {" + group + "} : i64[]\n%1 = reshape(%0) {dims = [1]} : i64[1]\n" + change +
         "%9 = all_gather(%2) {" + std::string(kMesh) + "along = [\"a\", \"b\"]} : i64[6]\n";
}

}  // namespace

TEST_CASE("the position of a device is row-major in the axes of its group") {
  Diagnostics d;
  const std::string same = "%2 = reshape(%1) {dims = [1]} : i64[1]\n";
  CHECK(value_of(rank_gathered("\"a\", \"b\"", same), d) == std::vector<double>{0, 1, 2, 3, 4, 5});
  CHECK(value_of(rank_gathered("\"b\", \"a\"", same), d) == std::vector<double>{0, 2, 4, 1, 3, 5});
  CHECK(value_of(rank_gathered("\"b\"", same), d) == std::vector<double>{0, 1, 2, 0, 1, 2});
  CHECK_MESSAGE(d.ok(), d.text());
}

TEST_CASE("a permutation moves operands within each group") {
  Diagnostics d;
  const std::string moved =
      "%2 = collective_permute(%1) {" + std::string(kMesh) + "along = [\"b\"], source = [1, 2, 0]} : i64[1]\n";
  CHECK(value_of(rank_gathered("\"a\", \"b\"", moved), d) == std::vector<double>{1, 2, 0, 4, 5, 3});
  CHECK_MESSAGE(d.ok(), d.text());
}

TEST_CASE("a device sends to several, and those that receive nothing have zeros") {
  Diagnostics d;
  const std::string moved =
      "%2 = collective_permute(%1) {" + std::string(kMesh) + "along = [\"b\"], source = [2, -1, 2]} : i64[1]\n";
  CHECK(value_of(rank_gathered("\"a\", \"b\"", moved), d) == std::vector<double>{2, 0, 2, 5, 0, 5});
  CHECK_MESSAGE(d.ok(), d.text());
}

TEST_CASE("reductions combine the operands of each group") {
  const std::pair<const char*, std::vector<double>> cases[] = {
      {"sum", {3, 5, 7, 3, 5, 7}}, {"max", {3, 4, 5, 3, 4, 5}}, {"min", {0, 1, 2, 0, 1, 2}}};
  for (const auto& [op, expected] : cases) {
    Diagnostics d;
    const std::string reduced = "%2 = all_reduce(%1) {" + std::string(kMesh) + "along = [\"a\"], op = \"" + op + "\"} : i64[1]\n";
    CHECK(value_of(rank_gathered("\"a\", \"b\"", reduced), d) == expected);
    CHECK_MESSAGE(d.ok(), d.text());
  }
}

TEST_CASE("parts of an axis in blocks are those of each block") {
  Diagnostics d;
  const std::string mesh = "mesh = \"a=2\", along = [\"a\"], axis = 0, blocks = 2";
  CHECK(value_of("%0 = constant {data = dense [0, 1, 2, 3, 4, 5, 6, 7]} : i64[8]\n%1 = device_slice(%0) {" + mesh +
                     "} : i64[4]\n%9 = all_gather(%1) {mesh = \"a=2\", along = [\"a\"]} : i64[8]\n",
                 d) == std::vector<double>{0, 1, 4, 5, 2, 3, 6, 7});
  CHECK_MESSAGE(d.ok(), d.text());
}

TEST_CASE("all_to_all cuts one axis and joins another") {
  Diagnostics d;
  const std::string group = "mesh = \"a=2\", along = [\"a\"]";
  const std::string lines = "%0 = constant {data = dense [0, 1, 2, 3]} : i64[2,2]\n%1 = device_slice(%0) {" + group +
                            ", axis = 0} : i64[1,2]\n%2 = all_to_all(%1) {" + group +
                            ", axis = 1, to = 0} : i64[2,1]\n%9 = all_gather(%2) {" + group + ", axis = 0} : i64[4,1]\n";
  CHECK(value_of(lines, d) == std::vector<double>{0, 2, 1, 3});
  CHECK_MESSAGE(d.ok(), d.text());
}

TEST_CASE("collectives that cannot be are errors") {
  const std::string x = "%0 = constant {data = dense [0, 1, 2, 3]} : i64[4]\n%9 = ";
  for (const std::string& bad :
       {x + "all_gather(%0) {mesh = \"a=2\", along = [\"b\"]} : i64[8]\n", x + "all_gather(%0) {along = [\"a\"]} : i64[8]\n",
        x + "all_gather(%0) {mesh = \"a=2\", along = [\"a\", \"a\"]} : i64[16]\n",
        x + "all_gather(%0) {mesh = \"a=2\", along = [\"a\"], axis = 1} : i64[8]\n",
        x + "all_gather(%0) {mesh = \"a=2\", along = [\"a\"], axis = -1} : i64[8]\n",
        x + "all_gather(%0) {mesh = \"a=2\", along = [\"a\"], blocks = 3} : i64[8]\n",
        x + "all_gather(%0) {mesh = \"a=2\", along = [\"a\"], blocks = 0} : i64[8]\n",
        x + "device_slice(%0) {mesh = \"a=3\", along = [\"a\"]} : i64[1]\n",
        x + "device_slice(%0) {mesh = \"a=2\", along = [\"a\"], blocks = -2} : i64[2]\n",
        x + "device_slice(%0) {mesh = \"a=2\", along = [\"a\"], blocks = 9223372036854775807} : i64[2]\n",
        x + "device_slice(%0) {mesh = \"a=9999999999\", along = [\"a\"]} : i64[2]\n",
        x + "all_reduce(%0) {mesh = \"a=2\", along = [\"a\"], op = \"prod\"} : i64[4]\n",
        x + "collective_permute(%0) {mesh = \"a=2\", along = [\"a\"], source = [0, -2]} : i64[4]\n",
        x + "collective_permute(%0) {mesh = \"a=2\", along = [\"a\"], source = [0, 9]} : i64[4]\n",
        x + "collective_permute(%0) {mesh = \"a=2\", along = [\"a\"]} : i64[4]\n",
        x + "all_to_all(%0) {mesh = \"a=2\", along = [\"a\"], axis = 0, to = 3} : i64[4]\n"}) {
    Diagnostics d;
    value_of(bad, d);
    CHECK_MESSAGE(!d.ok(), bad);
  }
  // Devices that disagree about an output.
  Diagnostics d;
  value_of("%9 = device_index {mesh = \"a=2\", along = [\"a\"]} : i64[]\n", d);
  CHECK_MESSAGE(d.text().find("differs between device 0 and device 1") != std::string::npos, d.text());
}
