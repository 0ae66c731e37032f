// Branches whose results have different ranks, and branches that fit only some sizes.
#include "eval/eval.h"
#include "support/onnx_model.h"

using namespace rlxc;
using namespace rlxc::test;

namespace {

std::string ints(std::string_view name, const std::vector<int64_t>& v) {
  return node("Constant", {}, {std::string(name)}, {attribute("value_ints", v)});
}

// A body without inputs and with one result; its nodes read outer names.
std::string body(const std::vector<std::string>& nodes, std::string_view result) {
  std::string out;
  for (const std::string& n : nodes) out += field(1, n);
  return out + field(2, "body") + field(12, field(1, result));
}

std::string branch(std::string_view condition, std::string_view result, std::string_view then, std::string_view otherwise) {
  return node("If", {std::string(condition)}, {std::string(result)},
              {graph_attribute("then_branch", then), graph_attribute("else_branch", otherwise)});
}

// Inputs x: f32[2, unnamed] and "go": bool[].
OnnxModel open_input() {
  OnnxModel m(17);
  m.raw_graph(field(11, value_info("x", DType::F32, {2, -1})));
  m.raw_graph(field(11, value_info("go", DType::Bool, {})));
  return m;
}

std::optional<std::vector<eval::HostValue>> run(Module& m, int64_t size, double go, Diagnostics& d) {
  const std::vector<eval::HostValue> inputs = {eval::tensor_of(DType::F32, {2, size}, some(static_cast<size_t>(2 * size), 1)),
                                               eval::tensor_of(DType::Bool, {}, {go})};
  return eval::evaluate(m, inputs, d);
}

// An exporter's squeeze of an axis of unknown size.
std::vector<std::string> squeeze_if_one(const std::string& x, const std::string& y) {
  return {node("Shape", {x}, {y + "_shape"}), ints(y + "_axis", {1}), node("Gather", {y + "_shape", y + "_axis"}, {y + "_size"}),
          node("Equal", {y + "_size", y + "_axis"}, {y + "_one"}),
          branch(y + "_one", y, body({node("Squeeze", {x, y + "_axis"}, {y + "_then"})}, y + "_then"),
                 body({node("Identity", {x}, {y + "_else"})}, y + "_else"))};
}

}  // namespace

TEST_CASE("squeeze of an axis of unknown size makes its size a condition of the model") {
  OnnxModel m = open_input();
  for (const std::string& n : squeeze_if_one("x", "y")) m.add(n);
  m.output("y");
  Diagnostics d;
  const auto module = m.load(d);
  REQUIRE_MESSAGE(module, d.text());
  CHECK(module->main().type(module->main().outputs()[0]).rank() == 1);
  const auto one = run(*module, 1, 1, d);
  REQUIRE_MESSAGE(one, d.text());
  check_close(eval::numbers((*one)[0]), some(2, 1));
  CHECK_FALSE(run(*module, 3, 1, d));
  CHECK_MESSAGE(d.text().find("the model needs") != std::string::npos, d.text());
}

TEST_CASE("what a branch needs of sizes is asked where it runs") {
  OnnxModel m = open_input();
  std::vector<std::string> squeezed = squeeze_if_one("x", "flat");
  squeezed.push_back(node("Neg", {"flat"}, {"negative"}));
  m.add(branch("go", "y", body(squeezed, "negative"),
               body({ints("last", {1}), node("ReduceSum", {"x", "last"}, {"sum"}, {attribute("keepdims", 0)})}, "sum")));
  m.output("y");
  Diagnostics d;
  const auto module = m.load(d);
  REQUIRE_MESSAGE(module, d.text());
  CHECK(module->dims.equalities().empty());
  for (const auto& [size, go] : {std::pair(1, 1), std::pair(1, 0), std::pair(5, 0)})
    CHECK_MESSAGE(run(*module, size, go, d), d.text());
  CHECK_FALSE(run(*module, 5, 1, d));
  CHECK_MESSAGE(d.text().find("the model needs") != std::string::npos, d.text());
}

TEST_CASE("a branch may need something of sizes that only it tells") {
  OnnxModel m = open_input();
  m.add(ints("rows", {0}));
  m.add(branch("go", "y",
               body({node("ReduceSum", {"x", "rows"}, {"sum"}, {attribute("keepdims", 0)}), node("NonZero", {"sum"}, {"places"}),
                     node("Cast", {"places"}, {"reals"}, {attribute("to", 1)}), node("Add", {"x", "reals"}, {"added"})},
                    "added"),
               body({node("Neg", {"x"}, {"negative"})}, "negative")));
  m.output("y");
  Diagnostics d;
  const auto module = m.load(d);
  REQUIRE_MESSAGE(module, d.text());
  for (double go : {0, 1}) {
    const auto y = run(*module, 3, go, d);
    REQUIRE_MESSAGE(y, d.text());
    const auto x = some(6, 1);
    for (size_t i = 0; i < 6; ++i)
      CHECK(eval::numbers((*y)[0])[i] == doctest::Approx(go == 0 ? -x[i] : x[i] + static_cast<double>(i % 3)));
  }
}

TEST_CASE("a branch that does not fit the sizes may be there, but not run") {
  OnnxModel m = open_input();
  m.add(ints("seven", {2, 7}));
  m.add(branch("go", "y", body({node("Reshape", {"x", "seven"}, {"r"}), node("Neg", {"r"}, {"n"})}, "n"),
               body({node("Relu", {"x"}, {"p"})}, "p")));
  m.output("y");
  Diagnostics d;
  onnx_import::ImportOptions options;
  options.bind = {{"dim0", 4}};
  const auto module = m.load(d, options);
  REQUIRE_MESSAGE(module, d.text());
  CHECK_MESSAGE(d.text().find("does not fit") != std::string::npos, d.text());
  CHECK_MESSAGE(run(*module, 4, 0, d), d.text());
  CHECK_FALSE(run(*module, 4, 1, d));
  Diagnostics neither;
  options.bind = {{"dim0", 4}};
  OnnxModel bad = open_input();
  bad.add(ints("seven", {2, 7}));
  const std::string wrong = body({node("Reshape", {"x", "seven"}, {"r"})}, "r");
  bad.add(branch("go", "y", wrong, wrong));
  bad.output("y");
  CHECK_FALSE(bad.load(neither, options));
  CHECK_MESSAGE(neither.text().find("neither body fits") != std::string::npos, neither.text());
}

TEST_CASE("a condition that no size tells cannot choose between ranks") {
  OnnxModel m = open_input();
  m.add(ints("axis", {0}));
  m.add(branch("go", "y", body({node("Unsqueeze", {"x", "axis"}, {"u"})}, "u"), body({node("Identity", {"x"}, {"i"})}, "i")));
  m.output("y");
  Diagnostics d;
  CHECK_FALSE(m.load(d));
  CHECK_MESSAGE(d.text().find("ranks of the results") != std::string::npos, d.text());
}

TEST_CASE("a name that a file gives to a size that only data tell does not hide where it comes from") {
  OnnxModel m = open_input();
  m.add(node("NonZero", {"x"}, {"places"}));
  m.raw_graph(field(
      13, field(1, "places") +
              field(2, field(1, field(1, int64_t{7}) + field(2, field(1, field(1, int64_t{2})) + field(1, field(2, "found")))))));
  m.output("places");
  Diagnostics d;
  const auto module = m.load(d);
  REQUIRE_MESSAGE(module, d.text());
  CHECK_FALSE(module->dims.equal(module->main().dims(module->main().outputs()[0])[1], module->dims.symbol("found")));
}

TEST_CASE("a loop whose carried value changes its rank is copied") {
  for (const int64_t count : {0, 3}) {
    OnnxModel m(13);
    m.input("x", DType::F32, {2}, {1, 2});
    m.add(ints("count_1", {count}));
    m.add(ints("axis", {0}));
    m.add(node("Squeeze", {"count_1"}, {"count"}));
    std::string g = field(1, node("Unsqueeze", {"a", "axis"}, {"b"})) + field(1, node("Identity", {"go"}, {"more"}));
    g += field(11, value_info("i", DType::I64, {})) + field(11, value_info("go", DType::Bool, {}));
    g += field(11, field(1, "a") + field(2, field(1, field(1, 1)))) + field(2, "body");
    g += field(12, field(1, "more")) + field(12, field(1, "b"));
    m.add(node("Loop", {"count", "", "x"}, {"y"}, {graph_attribute("body", g)}));
    m.add(node("Shape", {"y"}, {"shape"}));
    m.output("y");
    m.output("shape");
    const auto got = m.run();
    CHECK(got[0] == std::vector<double>{1, 2});
    CHECK(got[1] == (count == 0 ? std::vector<double>{2} : std::vector<double>{1, 1, 1, 2}));
  }
}

TEST_CASE("Scan of opset 8 stops at the length of each entry") {
  OnnxModel m(8);
  m.input("lengths", DType::I64, {2}, {2, 3});
  m.input("start", DType::F32, {2, 1}, {0, 10});
  m.input("x", DType::F32, {2, 3, 1}, {1, 2, 3, 4, 5, 6});
  std::string g = field(1, node("Add", {"s", "v"}, {"t"})) + field(1, node("Identity", {"t"}, {"u"}));
  g += field(11, value_info("s", DType::F32, {1})) + field(11, value_info("v", DType::F32, {1})) + field(2, "body");
  g += field(12, field(1, "t")) + field(12, field(1, "u"));
  m.add(node("Scan", {"lengths", "start", "x"}, {"end", "y"}, {graph_attribute("body", g), attribute("num_scan_inputs", 1)}));
  m.output("end");
  m.output("y");
  const auto got = m.run();
  CHECK(got[0] == std::vector<double>{3, 25});
  CHECK(got[1] == std::vector<double>{1, 3, 0, 14, 19, 25});
}
