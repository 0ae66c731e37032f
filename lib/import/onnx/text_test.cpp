#include "support/onnx_model.h"

using namespace rlxc;
using namespace rlxc::test;

TEST_CASE("strings are moved as numbers are") {
  using Words = std::vector<std::string>;
  using Ints = std::vector<int64_t>;
  OnnxModel m(18);
  int made = 0;
  const auto words = [&](const Words& v) {
    const std::string name = "words" + std::to_string(made++);
    m.add(node("Constant", {}, {name}, {attribute("value_strings", v)}));
    return name;
  };
  const auto ints = [&](const Ints& v) {
    const std::string name = "ints" + std::to_string(made++);
    m.add(node("Constant", {}, {name}, {attribute("value_ints", v)}));
    return name;
  };
  const std::string list = words({"a", "b", "c", "d"}), flat = ints({-1}), square = "square";
  m.add(node("Reshape", {list, ints({2, 2})}, {square}));
  struct Row {
    std::string op;
    std::vector<std::string> operands, attributes;
    Words expected;
  };
  const std::vector<Row> rows{
      {"Concat", {list, words({"e"})}, {attribute("axis", 0)}, {"a", "b", "c", "d", "e"}},
      {"Gather", {list, ints({2, -4})}, {}, {"c", "a"}},
      {"GatherND", {list, "pair"}, {}, {"d", "b"}},
      {"Slice", {list, ints({3}), ints({0}), ints({0}), ints({-2})}, {}, {"d", "b"}},
      {"Pad", {list, ints({1, 0})}, {}, {"", "a", "b", "c", "d"}},
      {"Pad", {list, ints({0, 2})}, {attribute("mode", "edge")}, {"a", "b", "c", "d", "d", "d"}},
      {"Transpose", {square}, {}, {"a", "c", "b", "d"}},
      {"Tile", {square, ints({1, 2})}, {}, {"a", "b", "a", "b", "c", "d", "c", "d"}},
      {"OneHot", {ints({1}), ints({2}), words({"off", "on"})}, {}, {"off", "on"}},
      {"Compress", {list, "keep"}, {}, {"b", "c"}},
      {"Where", {"keep", list, words({"-"})}, {}, {"-", "b", "c", "-"}},
      {"ScatterND", {list, "pair", words({"x", "y"})}, {}, {"a", "y", "c", "x"}},
  };
  m.add(node("Unsqueeze", {ints({3, 1}), ints({1})}, {"pair"}));
  m.add(node("Cast", {ints({0, 1, 1, 0})}, {"keep"}, {attribute("to", onnx_dtype(DType::Bool))}));
  for (size_t i = 0; i < rows.size(); ++i) {
    const std::string y = "y" + std::to_string(i);
    m.add(node(rows[i].op, rows[i].operands, {y}, rows[i].attributes));
    m.add(node("Reshape", {y, flat}, {y + "_flat"}));
    m.add(node("Equal", {y + "_flat", words(rows[i].expected)}, {y + "_equal"}));
    m.output(y + "_equal");
  }
  const auto got = m.run();
  for (size_t i = 0; i < rows.size(); ++i) {
    INFO(rows[i].op);
    CHECK(got[i] == std::vector<double>(rows[i].expected.size(), 1));
  }
}

TEST_CASE("strings have no arithmetic") {
  OnnxModel m(18);
  m.add(node("Constant", {}, {"a"}, {attribute("value_strings", std::vector<std::string>{"a"})}));
  m.add(node("Add", {"a", "a"}, {"y"}));
  m.output("y");
  Diagnostics d;
  CHECK_FALSE(m.load(d));
  CHECK(d.text().find("strings are not supported here") != std::string::npos);
}
