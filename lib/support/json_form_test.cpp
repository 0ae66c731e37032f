#include "support/json_form.h"

#include <doctest/doctest.h>

#include <string>

namespace rlxc {
namespace {

std::string fault(const std::string& text) {
  const auto f = form_fault(text);
  return f ? f->message : "";
}
std::string graph(const std::string& node) {
  return R"({"format": "rlxc-graph", "graphs": [{"nodes": [{"op": "Softmax", "results": [[0, "f32[2]"]], )" + node + R"(}]}]})";
}

TEST_CASE("a member that the schema does not know is a fault, with the nearest name") {
  CHECK(fault(graph(R"("attrs": {"axis": 1})")).empty());
  CHECK(fault(graph(R"("attributes": {"axis": 1})")) == R"("attributes" is not known here; did you mean "attrs"?)");
  CHECK(fault(graph(R"("operand": [1])")) == R"("operand" is not known here; did you mean "operands"?)");
  CHECK(fault(R"({"format": "rlxc-calibration", "tensors": {"zero_point": {"scales": [1], "zero_point": [0]}}})") ==
        R"("zero_point" is not known here; did you mean "zero_points"?)");
  CHECK(fault(R"({"format": "rlxc-graph", "graphs": [{"nodes": []}], "symbol": []})").find("\"symbols\"") != std::string::npos);
  // In alternatives, behind references to other files, and in lists.
  CHECK(fault(R"({"format": "rlxc-graph", "graphs": [{"nodes": [{"op": "Input", "results": [{"value": 0, "typ": "f32[2]"}]}]}]})")
            .find("\"type\"") != std::string::npos);
  CHECK(fault(R"({"format": "rlxc-graph", "constants": [{"id": 0, "dtype": "f32", "dims": [], "value": [1]}], "graphs": []})")
            .find("\"values\"") != std::string::npos);
  CHECK(
      fault(
          R"({"format": "rlxc-graph", "constants": [{"id": 0, "dtype": "f32", "dims": [], "splat": 1}], "graphs": [{"nodes": []}]})")
          .empty());
}

TEST_CASE("a value that the schema does not allow is a fault that names the member") {
  const auto tensor = [](const std::string& members) {
    return fault(R"({"format": "rlxc-calibration", "tensors": {"x": {)" + members + "}}}");
  };
  CHECK(tensor(R"("scales": [1], "zero_points": [0])").empty());
  CHECK(tensor(R"("scales": [1], "zero_points": 0)") == R"("tensors.x.zero_points" must be a list)");
  CHECK(tensor(R"("scales": [1], "zero_points": ["0"])") == R"("tensors.x.zero_points[0]" must be an integer)");
  CHECK(tensor(R"("scales": [1], "zero_points": [0.5])") == R"("tensors.x.zero_points[0]" must be an integer)");
  CHECK(tensor(R"("scales": [1], "zero_points": [3.0])").empty());
  CHECK(tensor(R"("scales": [1], "zero_points": [500])") == R"("tensors.x.zero_points[0]" must be at most 127)");
  CHECK(tensor(R"("scales": [1, 0])") == R"("tensors.x.scales[1]" must be greater than 0)");
  CHECK(tensor(R"("scales": [])") == R"("tensors.x.scales" must have at least 1 items)");
  CHECK(tensor(R"("axis": 0)") == R"("tensors.x" lacks "scales")");
  CHECK(fault(R"({"format": "rlxc-calibration"})") == R"(the document lacks "tensors")");
  CHECK(fault(R"({"format": "rlxc-config", "options": {"kernel-dispatch": "nativ"}})").find("did you mean \"native\"?") !=
        std::string::npos);
}

TEST_CASE("the place of a fault is that of the member's value") {
  const std::string text = R"({"format": "rlxc-rules", "rulez": 7})";
  const auto f = form_fault(text);
  REQUIRE(f);
  CHECK(text.substr(f->at, 1) == "7");
}

TEST_CASE("versions: older ones are read, later major ones and none are not, later minor ones may have more members") {
  const auto version = [](const std::string& v, const std::string& more = "") {
    const std::string text = R"({"format": "rlxc-graph", "graphs": [{"nodes": []}], "format_version": )" + v + more + "}";
    const auto f = version_fault(text);
    return f ? f->message : fault(text);
  };
  CHECK(version("\"1.0\"").empty());
  CHECK(version("\"2.1\"").empty());
  CHECK(version("\"3.0\"").empty());
  CHECK(version("\"4.0\"").find("newer than this rlxc") != std::string::npos);
  for (const char* bad : {"\"0.9\"", "\"abc\"", "\"1\"", "2", "\"-1.0\"", "\"\""})
    CHECK_MESSAGE(version(bad).find("does not exist") != std::string::npos, bad);
  CHECK(version("\"3.9\"", R"(, "later": 1)").empty());
  CHECK_FALSE(version("\"2.1\"", R"(, "later": 1)").empty());
}

TEST_CASE("documents of no format, and malformed ones, are left to their readers") {
  for (const char* text : {"", "7", "[", "{}", R"({"format": "other", "x": 1})", R"({"format": "rlxc-nosuch", "x": 1})",
                           R"({"format": "rlxc-graph", "graphs": [)", R"({"format": 7})"})
    CHECK_MESSAGE(fault(text).empty(), text);
}

}  // namespace
}  // namespace rlxc
