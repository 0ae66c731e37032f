// Pads that an exporter left as ops on constants: the reference evaluator computes them at import.
#include "support/onnx_model.h"

using namespace rlxc;
using namespace rlxc::test;

namespace {

// x [1,3] padded at the end of axis 1 by the number that `nodes` compute from the constants as `pad` [1].
void check_pad(const std::vector<std::string>& nodes, int64_t expected) {
  OnnxModel m(18);
  m.raw_graph(field(11, value_info("x", DType::F32, {1, 3})));
  const auto ints = [&](std::string_view name, const std::vector<int64_t>& v) {
    m.add(node("Constant", {}, {std::string(name)}, {attribute("value_ints", v)}));
  };
  const auto reals = [&](std::string_view name, const std::vector<double>& v) {
    m.add(node("Constant", {}, {std::string(name)}, {attribute("value_floats", v)}));
  };
  ints("zeros", {0, 0, 0}), ints("zero", {0}), ints("one", {1}), ints("list", {4, 1, 3}), ints("grid", {2, 2});
  reals("nine", {9}), reals("low", {-5.4});
  m.add(node("Constant", {}, {"six"}, {attribute("value_float", 6.0)}));
  for (const std::string& n : nodes) m.add(n);
  m.add(node("Concat", {"zeros", "pad"}, {"pads"}, {attribute("axis", 0)}));
  m.add(node("Pad", {"x", "pads"}, {"y"}));
  m.output("y");
  Diagnostics d;
  const auto module = m.load(d);
  REQUIRE_MESSAGE(module, d.text());
  CHECK(module->main().dims(module->main().outputs()[0])[1] == 3 + expected);
}

std::string to_int(const std::string& from) { return node("Cast", {from}, {"pad"}, {attribute("to", 7)}); }

}  // namespace

TEST_CASE("pads computed from constants by any operation") {
  check_pad({node("Sqrt", {"nine"}, {"r"}), to_int("r")}, 3);
  check_pad({node("Clip", {"nine", "", "six"}, {"r"}), to_int("r")}, 6);
  check_pad({node("Round", {"low"}, {"r"}), node("Abs", {"r"}, {"s"}), to_int("s")}, 5);
  check_pad({node("Pow", {"nine", "one"}, {"r"}), to_int("r")}, 9);
  check_pad({node("Size", {"list"}, {"r"}), node("Unsqueeze", {"r", "zero"}, {"pad"})}, 3);
  check_pad({node("CumSum", {"list", "zero"}, {"r"}), node("Gather", {"r", "one"}, {"pad"})}, 5);
  check_pad({node("TopK", {"list", "one"}, {"pad", "at"})}, 4);
  check_pad({node("ArgMax", {"list"}, {"a"}), node("Add", {"a", "one"}, {"pad"})}, 1);
  check_pad({node("Flatten", {"list"}, {"f"}, {attribute("axis", 0)}), node("ReduceMax", {"f"}, {"r"}),
             node("Reshape", {"r", "one"}, {"pad"})},
            4);
  check_pad({node("Unsqueeze", {"one", "zero"}, {"i"}), node("GatherND", {"list", "i"}, {"pad"})}, 1);
  check_pad({node("ScatterElements", {"list", "zero", "one"}, {"s"}), node("Gather", {"s", "zero"}, {"pad"})}, 1);
  check_pad({node("NonZero", {"list"}, {"n"}), node("Size", {"n"}, {"r"}), node("Unsqueeze", {"r", "zero"}, {"pad"})}, 3);
}
