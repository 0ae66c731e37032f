// Sizes, pads and scales that are inputs of the model: the results are those of the same operators with constants.
#include "support/onnx_pairs.h"

using namespace rlxc;
using namespace rlxc::test;

namespace {

using Words = std::vector<std::string>;

// An input and a constant with the same numbers.
void twice(OnnxPair& p, const std::string& name, const std::vector<int64_t>& v) {
  p.model().input(name, DType::I64, {static_cast<int64_t>(v.size())}, {v.begin(), v.end()});
  p.ints(name + "_c", v);
}

}  // namespace

TEST_CASE("images resized to sizes and by scales of an input") {
  const Words modes = {"half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners", "half_pixel_symmetric"};
  const Words roundings = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};
  OnnxPair p;
  p.real("x", {1, 2, 4, 5});
  std::vector<std::pair<std::string, std::string>> same;
  for (const std::vector<int64_t>& size : {std::vector<int64_t>{1, 2, 7, 3}, {1, 2, 4, 1}, {1, 2, 2, 11}}) {
    const std::string s = "s" + std::to_string(same.size());
    twice(p, s, size);
    const auto both = [&](const std::string& name, const Words& attributes) {
      p.on("Resize", {"x", "", "", s}, s + name, attributes).on("Resize", {"x", "", "", s + "_c"}, s + name + "_c", attributes);
      same.emplace_back(s + name, s + name + "_c");
    };
    for (const std::string& mode : modes) {
      const auto coord = attribute("coordinate_transformation_mode", mode.c_str());
      for (const char* kind : {"linear", "cubic"}) both(mode + kind, {coord, attribute("mode", kind)});
      for (const std::string& r : roundings) both(mode + r, {coord, attribute("nearest_mode", r.c_str())});
    }
  }
  p.agree(same);

  OnnxPair q;
  q.real("x", {2, 3, 5});
  q.model().input("scales", DType::F32, {3}, {1, 2.5, 0.75});
  q.model().add(node("Constant", {}, {"scales_c"}, {attribute("value_floats", std::vector<double>{1, 2.5, 0.75})}));
  same.clear();
  for (const std::string& mode : modes)
    for (const char* kind : {"nearest", "linear", "cubic"}) {
      const std::string name = mode + kind;
      const Words attributes = {attribute("coordinate_transformation_mode", mode.c_str()), attribute("mode", kind)};
      q.on("Resize", {"x", "", "scales"}, name, attributes).on("Resize", {"x", "", "scales_c"}, name + "_c", attributes);
      same.emplace_back(name, name + "_c");
    }
  q.agree(same);
}

TEST_CASE("tensors padded by an input") {
  OnnxPair p;
  p.real("x", {3, 4}).number("fill", 2.5);
  twice(p, "pads", {1, 2, 0, 2});
  twice(p, "cut", {-1, 1, 1, -2});
  twice(p, "last", {3, 1});
  p.ints("axes", {-1});
  std::vector<std::pair<std::string, std::string>> same;
  for (const std::string mode : {"constant", "edge", "reflect", "wrap"})
    for (const std::string pads : {"pads", "cut", "last"}) {
      if (pads == "cut" && mode != "constant") continue;
      for (const std::string form : {"", "_c"}) {
        Words in = {"x", pads + form, "fill"};
        if (pads == "last") in.push_back("axes");
        p.on("Pad", in, mode + pads + form + "_y", {attribute("mode", mode.c_str())});
      }
      same.emplace_back(mode + pads + "_y", mode + pads + "_c_y");
    }
  p.agree(same, 0);
}

TEST_CASE("repeats and depths of an input") {
  OnnxPair p;
  p.real("x", {2, 3}).integers("at", DType::I64, {4}, -5, 5);
  twice(p, "repeats", {3, 2});
  twice(p, "none", {1, 0});
  twice(p, "depth", {5});
  p.model().add(node("Constant", {}, {"values"}, {attribute("value_floats", std::vector<double>{-1, 4})}));
  for (const std::string form : {"", "_c"}) {
    p.on("Tile", {"x", "repeats" + form}, "y" + form).on("Tile", {"x", "none" + form}, "n" + form);
    p.on("OneHot", {"at", "depth" + form, "values"}, "h" + form);
    p.on("OneHot", {"at", "depth" + form, "values"}, "g" + form, {attribute("axis", 0)});
  }
  p.agree({{"y", "y_c"}, {"n", "n_c"}, {"h", "h_c"}, {"g", "g_c"}}, 0);
}

TEST_CASE("inputs without a shape, and contents of inputs, that options state") {
  const auto load = [](onnx_import::ImportOptions options, Diagnostics& d) {
    OnnxModel m;
    m.raw_graph(field(11, field(1, "x") + field(2, field(1, field(1, int64_t{1})))));  // floats, without a shape
    m.raw_graph(field(11, value_info("steps", DType::I64, {1})));
    for (const auto& [name, v] : {std::pair{"first", 0}, {"end", -9}, {"axis", 2}})
      m.add(node("Constant", {}, {name}, {attribute("value_ints", std::vector<int64_t>{v})}));
    m.add(node("Slice", {"x", "first", "end", "axis", "steps"}, {"y"}));
    m.output("y");
    return m.load(d, options);
  };
  onnx_import::ImportOptions options;
  const auto refused = [&](std::string_view words) {
    Diagnostics d;
    CHECK_FALSE(load(options, d));
    CHECK_MESSAGE(d.text().find(words) != std::string::npos, d.text());
  };
  refused("--shape x=2x3");
  options.shapes = {{"x", "2xrowsx3"}};
  refused("--value");
  options.values = {{"steps", "-1"}};
  Diagnostics d;
  const auto m = load(options, d);
  REQUIRE_MESSAGE(m, d.text());
  const auto got = m->main().dims(m->main().outputs()[0]);
  REQUIRE(got.size() == 3);
  CHECK(got[1] == m->dims.symbol("rows"));
  CHECK(got[2] == 1);
  options.values = {{"steps", "1,2"}};
  refused("does not fit");
  options.values = {{"steps", "last"}};
  refused("does not fit");
  options.shapes = {{"x", "2x-3"}};
  refused("without a shape");
}

TEST_CASE("axes that are declared without a size take the one that --shape states") {
  const auto load = [](const std::string& words, Diagnostics& d) {
    OnnxModel m;
    m.raw_graph(field(11, value_info("x", DType::F32, {-1, 3, -1})));
    m.add(node("Relu", {"x"}, {"y"}));
    m.output("y");
    onnx_import::ImportOptions options;
    options.shapes = {{"x", words}};
    return m.load(d, options);
  };
  Diagnostics d;
  const auto m = load("2x3xcolumns", d);
  REQUIRE_MESSAGE(m, d.text());
  const auto got = m->main().dims(m->main().outputs()[0]);
  CHECK(got[0] == 2);
  CHECK(got[2] == m->dims.symbol("columns"));
  for (const char* words : {"2x4x5", "2x3", "2xrowsx5", "2x-3x5"}) {
    Diagnostics refused;
    CHECK_FALSE(load(words, refused));
    CHECK_MESSAGE(refused.text().find("does not fit") != std::string::npos, refused.text());
  }
}

TEST_CASE("vectors whose length only the run tells: the rank of an operand or of the declared result is their length") {
  OnnxModel m(18);
  m.raw_graph(field(11, value_info("x", DType::F32, {2, 3})));
  for (const std::string list : {"shape", "pads", "repeats", "wide"}) m.raw_graph(field(11, value_info(list, DType::I64, {-1})));
  m.add(node("Reshape", {"x", "shape"}, {"a"}));
  m.add(node("Pad", {"x", "pads"}, {"b"}));
  m.add(node("Tile", {"x", "repeats"}, {"c"}));
  m.add(node("Expand", {"x", "wide"}, {"d"}));
  m.raw_graph(field(12, value_info("a", DType::F32, {-1, -1, -1})));
  for (const std::string result : {"b", "c"}) m.output(result);
  m.raw_graph(field(12, value_info("d", DType::F32, {-1, -1, -1})));
  Diagnostics d;
  const auto module = m.load(d);
  REQUIRE_MESSAGE(module, d.text());
  const auto list = [](std::vector<int64_t> v) {
    eval::HostValue value;
    value.tensor = make_data(DType::I64, {static_cast<int64_t>(v.size())}, v);
    return value;
  };
  eval::HostValue x;
  x.tensor = make_data<float>(DType::F32, {2, 3}, {1, 2, 3, 4, 5, 6});
  const auto got = eval::evaluate(*module, std::vector{x, list({1, 3, 2}), list({0, 1, 1, 0}), list({2, 1}), list({4, 1, 1})}, d);
  REQUIRE_MESSAGE(got, d.text());
  const std::vector<std::vector<int64_t>> expected{{1, 3, 2}, {3, 4}, {4, 3}, {4, 2, 3}};
  for (size_t i = 0; i < 4; ++i) CHECK((*got)[i].tensor.dims == expected[i]);
  CHECK_FALSE(eval::evaluate(*module, std::vector{x, list({3, 2}), list({0, 1, 1, 0}), list({2, 1}), list({4, 1, 1})}, d));
}
