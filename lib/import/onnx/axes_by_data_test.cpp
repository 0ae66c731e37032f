// Axes and lengths that are inputs of the model: the results are those of the same operators with constants.
#include "support/onnx_pairs.h"

using namespace rlxc;
using namespace rlxc::test;

namespace {

// An input NAME and a constant NAME_c with the same numbers.
void listed(OnnxPair& p, const std::string& name, const std::vector<int64_t>& v) {
  p.model().input(name, DType::I64, {static_cast<int64_t>(v.size())}, {v.begin(), v.end()});
  p.ints(name + "_c", v);
}

}  // namespace

TEST_CASE("reductions along axes of an input") {
  OnnxPair p;
  p.real("x", {2, 3, 4});
  listed(p, "last", {-1});
  listed(p, "outer", {0, -1});
  p.on("Abs", {"x"}, "positive");
  std::vector<std::pair<std::string, std::string>> same;
  for (const std::string how : {"L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare"})
    for (const std::string axes : {"last", "outer"})
      for (const int keep : {0, 1}) {
        const std::string name = how + axes + std::to_string(keep);
        for (const std::string form : {"", "_c"})
          p.on("Reduce" + how, {"positive", axes + form}, name + form, {attribute("keepdims", keep)});
        same.emplace_back(name, name + "_c");
      }
  p.agree(same);
}

TEST_CASE("axes of an input that are cut, added, dropped or summed along") {
  OnnxPair p;
  p.real("x", {2, 1, 4, 1});
  listed(p, "units", {3, 1});
  listed(p, "unit", {-3});
  listed(p, "added", {0, -2});
  listed(p, "from", {1, -3});
  listed(p, "to", {9, -1});
  listed(p, "cut", {0, 2});
  p.model().input("axis", DType::I64, {}, {2});
  p.model().add(node("Constant", {}, {"axis_c"}, {attribute("value_int", 2)}));
  for (const std::string f : {"", "_c"}) {
    p.on("Squeeze", {"x", "units" + f}, "a" + f)
        .on("Squeeze", {"x", "unit" + f}, "b" + f)
        .on("Unsqueeze", {"x", "added" + f}, "c" + f);
    p.on("Slice", {"x", "from" + f, "to" + f, "cut" + f}, "d" + f);
    p.on("CumSum", {"x", "axis" + f}, "e" + f, {attribute("reverse", 1)});
  }
  p.agree({{"a", "a_c"}, {"b", "b_c"}, {"c", "c_c"}, {"d", "d_c"}, {"e", "e_c"}}, 0);
}

TEST_CASE("Fourier transforms of a length, and along an axis, of an input") {
  OnnxPair p;
  p.real("x", {2, 6, 5, 1});
  for (const auto& [name, v] : {std::pair<std::string, int64_t>{"long", 8}, {"short", 3}, {"axis", 2}}) {
    p.model().input(name, DType::I64, {}, {static_cast<double>(v)});
    p.model().add(node("Constant", {}, {name + "_c"}, {attribute("value_int", v)}));
  }
  p.model().add(node("Constant", {}, {"one"}, {attribute("value_int", 1)}));
  for (const std::string f : {"", "_c"})
    for (const int onesided : {0, 1}) {
      const std::string end = std::to_string(onesided) + f;
      p.on("DFT", {"x", "long" + f, "one"}, "a" + end, {attribute("onesided", onesided)});
      p.on("DFT", {"x", "short" + f, "one"}, "b" + end, {attribute("onesided", onesided)});
      p.on("DFT", {"x", "", "axis" + f}, "c" + end, {attribute("onesided", onesided)});
    }
  p.agree({{"a0", "a0_c"}, {"b0", "b0_c"}, {"c0", "c0_c"}, {"a1", "a1_c"}, {"b1", "b1_c"}, {"c1", "c1_c"}});
}

TEST_CASE("axes whose number only a run knows leave the rank open") {
  for (const std::string op : {"Squeeze", "ReduceSum"}) {
    OnnxModel m(18);
    m.raw_graph(field(11, value_info("x", DType::F32, {2, 3})));
    m.raw_graph(field(11, value_info("axes", DType::I64, {-1})));
    m.add(node(op, {"x", "axes"}, {"y"}));
    m.output("y");
    Diagnostics d;
    CHECK_FALSE(m.load(d));
    CHECK_MESSAGE(d.text().find("--value") != std::string::npos, d.text());
  }
}

TEST_CASE("a declared count of elements that data select is a warning") {
  OnnxModel m(18);
  m.raw_graph(field(11, value_info("x", DType::F32, {2, 3})));
  m.add(node("NonZero", {"x"}, {"n"}));
  m.add(node("Transpose", {"n"}, {"y"}));
  m.raw_graph(field(12, value_info("y", DType::I64, {2, 2})));
  Diagnostics d;
  const auto module = m.load(d);
  REQUIRE_MESSAGE(module, d.text());
  CHECK_MESSAGE(d.text().find("the data tell the size") != std::string::npos, d.text());
  eval::HostValue x;
  x.tensor = make_data<float>(DType::F32, {2, 3}, {1, 0, 0, 2, 0, 3});
  const auto got = eval::evaluate(*module, std::vector{x}, d);
  REQUIRE_MESSAGE(got, d.text());
  CHECK((*got)[0].tensor.dims == std::vector<int64_t>{3, 2});
}

TEST_CASE("blocks of space in the order of columns") {
  OnnxPair p(28);
  p.real("x", {1, 2, 4, 6});
  p.on("SpaceToDepth", {"x"}, "y", {attribute("blocksize", 2), attribute("mode", "CRD")});
  p.on("DepthToSpace", {"y"}, "z", {attribute("blocksize", 2), attribute("mode", "CRD")});
  p.agree({{"z", "x"}}, 0);
}
