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

TEST_CASE("the first MeanVarianceNormalization takes each image by itself") {
  OnnxModel m(1);
  const std::vector<double> x{1, 3, 5, 9, -2, 2, 0, 8};
  m.input("x", DType::F32, {2, 2, 2, 1}, x);
  const auto add = [&](const char* name, int across, int variance) {
    m.add(node("MeanVarianceNormalization", {"x"}, {name},
               {attribute("across_channels", across), attribute("normalize_variance", variance)}));
    m.output(name);
  };
  add("each", 0, 1);
  add("across", 1, 0);
  const auto got = m.run();
  check_close(got[0], {-1, 1, -1, 1, -1, 1, -1, 1});
  check_close(got[1], {-3.5, -1.5, 0.5, 4.5, -4, 0, -2, 6});
}

TEST_CASE("dropout of early opsets: is_test, and a mask of zeros") {
  OnnxModel m(6);
  m.input("x", DType::F32, {2}, {3, 4});
  m.add(node("Dropout", {"x"}, {"y", "mask"}, {attribute("is_test", 1), attribute("ratio", 0.5)}));
  for (const char* name : {"y", "mask"}) m.output(name);
  const auto got = m.run();
  check_close(got[0], {3, 4});
  check_close(got[1], {0, 0});
}

TEST_CASE("operators of the first opsets alone") {
  OnnxModel m(1);
  m.input("x", DType::F32, {1, 2, 3, 4}, some(24, 1));
  const auto ints = [&](const char* name, const std::vector<int64_t>& v) {
    m.add(node("Constant", {}, {name}, {attribute("value_ints", v)}));
  };
  ints("bounds", {1, 1}), ints("ends", {3, 4}), ints("axes", {2, 3});
  m.add(node("ImageScaler", {"x"}, {"scaled"}, {attribute("scale", 0.5), attribute("bias", std::vector<double>{1, 2})}));
  m.add(node("Crop", {"x"}, {"cropped"}, {attribute("border", std::vector<int64_t>{1, 0, 2, 1})}));
  m.add(node("Crop", {"x"}, {"sized"},
             {attribute("border", std::vector<int64_t>{1, 2, 0, 0}), attribute("scale", std::vector<int64_t>{1, 2})}));
  m.add(node("DynamicSlice", {"x", "bounds", "ends", "axes"}, {"slice"}));
  m.add(node("Affine", {"x"}, {"affine"}, {attribute("alpha", 2.0), attribute("beta", 0.25)}));
  m.add(node("ParametricSoftplus", {"x"}, {"soft"}, {attribute("alpha", 2.0), attribute("beta", 3.0)}));
  m.add(node("ScaledTanh", {"x"}, {"tanh"}, {attribute("alpha", 2.0), attribute("beta", 3.0)}));
  for (const char* name : {"scaled", "cropped", "sized", "slice", "affine", "soft", "tanh"}) m.output(name);
  const auto got = m.run();
  std::vector<double> scaled, cropped, sized, slice, affine, soft, tanh;
  const auto x = some(24, 1);
  for (size_t i = 0; i < 24; ++i) {
    const size_t row = i / 4 % 3, column = i % 4;
    scaled.push_back(0.5 * x[i] + (i < 12 ? 1 : 2));
    if (column == 1 && row < 2) cropped.push_back(x[i]);
    if ((column == 1 || column == 2) && row == 2) sized.push_back(x[i]);
    if (row > 0 && column > 0) slice.push_back(x[i]);
    affine.push_back(2 * x[i] + 0.25);
    soft.push_back(2 * std::log1p(std::exp(3 * x[i])));
    tanh.push_back(2 * std::tanh(3 * x[i]));
  }
  check_close(got[0], scaled);
  check_close(got[1], cropped);
  check_close(got[2], sized);
  check_close(got[3], slice);
  check_close(got[4], affine);
  check_close(got[5], soft);
  check_close(got[6], tanh);
}
