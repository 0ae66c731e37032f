// Float initializers of a model that is trained stay parameters, and what is computed from them stays nodes.
#include <cstring>

#include "ir/graph.h"
#include "support/onnx_model.h"

using namespace rlxc;
using namespace rlxc::test;

namespace {

// TensorProto: dims 1, data_type 2, name 8, raw_data 9.
std::string floats(std::string_view name, const std::vector<int64_t>& dims, const std::vector<float>& values) {
  std::string bytes(values.size() * sizeof(float), 0), t;
  std::memcpy(bytes.data(), values.data(), bytes.size());
  for (int64_t n : dims) t += field(1, n);
  return field(5, t + field(2, int64_t{1}) + field(8, name) + field(9, bytes));
}
std::string integers(std::string_view name, const std::vector<int64_t>& values) {
  std::string bytes(values.size() * sizeof(int64_t), 0);
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return field(5, field(1, static_cast<int64_t>(values.size())) + field(2, int64_t{7}) + field(8, name) + field(9, bytes));
}

std::string params(const Module& m) {
  std::string s;
  const Graph& g = m.main();
  for (NodeId n : g.nodes())
    if (g.op(n) == OpKind::Param) s += std::string(m.bytes(g.value_name(g.result(n)))) + " ";
  return s;
}

}  // namespace

TEST_CASE("small weights behind layout operations, products and casts are parameters of a model that is trained") {
  OnnxModel p;
  p.input("x", DType::F32, {3, 2}, {1, 2, 3, 4, 5, 6});
  p.raw_graph(floats("w", {3}, {1, 2, 3}));
  p.raw_graph(floats("a", {2}, {0.5, 4}));
  p.raw_graph(floats("b", {2}, {2, 1}));
  p.raw_graph(floats("s", {}, {3}));
  p.raw_graph(floats("high", {}, {40}));
  p.raw_graph(integers("axes", {1}));
  p.raw_graph(integers("two", {2}));
  p.add(node("Unsqueeze", {"w", "axes"}, {"column"}));
  p.add(node("Mul", {"x", "column"}, {"scaled"}));
  p.add(node("Mul", {"a", "b"}, {"ab"}));
  p.add(node("Neg", {"ab"}, {"minus"}));
  p.add(node("Reshape", {"minus", "two"}, {"row"}));
  p.add(node("Concat", {"row", "a"}, {"four"}, {attribute("axis", 0)}));
  p.add(node("Slice", {"four", "start", "two"}, {"head"}));
  p.raw_graph(integers("start", {0}));
  p.add(node("Add", {"scaled", "head"}, {"sum"}));
  p.add(node("Mul", {"sum", "s"}, {"times"}));
  p.add(node("Clip", {"times", "", "high"}, {"y"}));
  p.output("y");
  Diagnostics d;
  std::vector<std::string> initializers;
  const auto m = p.load(d, {.trainable = true, .float_initializers = &initializers});
  REQUIRE_MESSAGE(m, d.text());
  for (const char* name : {"w ", "a ", "b ", "s "}) CHECK_MESSAGE(params(*m).find(name) != std::string::npos, params(*m));
  CHECK(initializers == std::vector<std::string>{"w", "a", "b", "s", "high"});
  Diagnostics plain;
  const auto folded = p.load(plain);
  REQUIRE_MESSAGE(folded, plain.text());
  CHECK(params(*folded).empty());
  check_close(p.run()[0], {0, -6, 15, 12, 40, 40});
}

TEST_CASE("a weight that also gives sizes is known as such") {
  OnnxModel p;
  p.input("x", DType::F32, {1, 1, 2, 2}, {1, 2, 3, 4});
  p.raw_graph(floats("scale", {2}, {2, 2}));
  p.raw_graph(floats("ones", {2}, {1, 1}));
  p.add(node("Concat", {"ones", "scale"}, {"scales"}, {attribute("axis", 0)}));
  p.add(node("Resize", {"x", "", "scales"}, {"y"}, {attribute("mode", "nearest")}));
  p.output("y");
  Diagnostics d;
  const auto m = p.load(d, {.trainable = true});
  REQUIRE_MESSAGE(m, d.text());
  CHECK(m->main().dims(m->main().outputs()[0])[3] == 4);
}

TEST_CASE("ai.rlxc.StopGradient") {
  OnnxModel p;
  p.opset("ai.rlxc", 1);
  p.input("x", DType::F32, {2}, {1, -2});
  p.add(node("StopGradient", {"x"}, {"y"}, {}, "ai.rlxc"));
  p.output("y");
  Diagnostics d;
  const auto m = p.load(d);
  REQUIRE_MESSAGE(m, d.text());
  CHECK(m->main().op(m->main().def(m->main().outputs()[0])) == OpKind::StopGradient);
  CHECK(p.run()[0] == std::vector<double>{1, -2});
}
