#include "support/onnx_model.h"

using namespace rlxc;
using namespace rlxc::test;

namespace {

// y = (a + b) * a at a = [2,3], b = [5,-1], and other points for the derivative.
OnnxModel product() {
  OnnxModel m(17);
  m.opset("ai.onnx.preview.training", 1);
  m.input("a", DType::F32, {2}, {2, 3});
  m.input("b", DType::F32, {2}, {5, -1});
  m.input("c", DType::F32, {2}, {10, 20});
  return m;
}
std::string gradient(const std::vector<std::string>& at, const std::vector<std::string>& xs, const std::vector<std::string>& zs,
                     const std::vector<std::string>& results, const char* y = "y") {
  return node("Gradient", at, results, {attribute("xs", xs), attribute("zs", zs), attribute("y", y)}, "ai.onnx.preview.training");
}
void add_product(OnnxModel& m) {
  m.add(node("Add", {"a", "b"}, {"s"}));
  m.add(node("Mul", {"s", "a"}, {"y"}));
}
std::string errors(const OnnxModel& m) {
  Diagnostics d;
  CHECK_FALSE(m.load(d));
  return d.text();
}

}  // namespace

TEST_CASE("the gradient of a value by others") {
  OnnxModel m = product();
  m.add(gradient({"a", "b"}, {"a", "b"}, {}, {"da", "db"}));  // precedes the nodes that it refers to
  add_product(m);
  m.add(gradient({"c", "b"}, {"a"}, {"b"}, {"dc"}));         // at another point
  m.add(gradient({"s", "a"}, {"s"}, {"a"}, {"ds"}));         // by an intermediate value
  m.add(gradient({"a", "b"}, {"a"}, {"b"}, {"dda"}, "da"));  // of a gradient
  for (const char* name : {"da", "db", "dc", "ds", "dda"}) m.output(name);
  const auto r = m.run();
  CHECK(r[0] == std::vector<double>{9, 5});    // 2a + b
  CHECK(r[1] == std::vector<double>{2, 3});    // a
  CHECK(r[2] == std::vector<double>{25, 39});  // 2c + b
  CHECK(r[3] == std::vector<double>{2, 3});    // a
  CHECK(r[4] == std::vector<double>{2, 2});
}

TEST_CASE("gradients that cannot be are refused") {
  const auto refused = [](const std::string& gradient_node, std::string_view why) {
    OnnxModel m = product();
    add_product(m);
    m.add(gradient_node);
    m.output("d");
    const std::string said = errors(m);
    CHECK_MESSAGE(said.find(why) != std::string::npos, said);
  };
  refused(gradient({"c"}, {"c"}, {}, {"d"}), "does not depend on \"c\"");
  refused(gradient({"a", "b"}, {"a"}, {}, {"d"}), "an input for each");
  refused(gradient({"a"}, {"nothing"}, {}, {"d"}), "\"nothing\"");
  OnnxModel m = product();
  m.input("square", DType::F32, {1, 1, 2, 2}, {1, 2, 3, 4});
  m.add(node("LRN", {"square"}, {"y"}, {attribute("size", int64_t{1})}));
  m.add(gradient({"square"}, {"square"}, {}, {"d"}));
  m.output("d");
  CHECK(errors(m).find("(lrn) is not known") != std::string::npos);
}
