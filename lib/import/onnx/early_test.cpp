// Forms that operators had in early opsets only.
#include <cmath>

#include "support/onnx_model.h"

using namespace rlxc;
using namespace rlxc::test;

TEST_CASE("batch normalisation of early opsets may have entries for each feature") {
  OnnxModel m(7);
  const auto x = some(12, 1), scale = some(6, 2), shift = some(6, 3), mean = some(6, 4), var = some(6, 5);
  std::vector<double> spread;
  for (double v : var) spread.push_back(static_cast<float>(v * v + 0.5));
  m.input("x", DType::F32, {2, 3, 2}, x);
  m.input("scale", DType::F32, {3, 2}, scale);
  m.input("shift", DType::F32, {3, 2}, shift);
  m.input("mean", DType::F32, {3, 2}, mean);
  m.input("var", DType::F32, {3, 2}, spread);
  m.add(node("BatchNormalization", {"x", "scale", "shift", "mean", "var"}, {"y"}, {attribute("spatial", 0)}));
  m.output("y");
  std::vector<double> y;
  for (size_t i = 0; i < 12; ++i)
    y.push_back((x[i] - mean[i % 6]) / std::sqrt(spread[i % 6] + 1e-5) * scale[i % 6] + shift[i % 6]);
  check_close(m.run()[0], y);
}

TEST_CASE("the order of the first LpPool is a float") {
  OnnxModel m(1);
  m.input("x", DType::F32, {1, 1, 3}, {3, -4, 12});
  m.add(node("LpPool", {"x"}, {"pairs"}, {attribute("kernel_shape", std::vector<int64_t>{2}), attribute("p", 2.0)}));
  m.add(node("GlobalLpPool", {"x"}, {"all"}, {attribute("p", 3.0)}));
  for (const char* name : {"pairs", "all"}) m.output(name);
  const auto got = m.run();
  check_close(got[0], {5, std::sqrt(160.0)});
  check_close(got[1], {std::cbrt(27 + 64 + 1728)});
}
