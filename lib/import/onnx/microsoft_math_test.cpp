#include <cmath>

#include "support/onnx_pairs.h"

using namespace rlxc;
using namespace rlxc::test;

TEST_CASE("inverse matrices give the identity") {
  OnnxPair p;
  p.real("x", {3, 4, 4}).ms("Inverse", {"x"}, {"y"}).on("MatMul", {"x", "y"}, "one");
  p.model().output("one");
  const auto got = p.model().run()[0];
  for (size_t i = 0; i < got.size(); ++i) CHECK(got[i] == doctest::Approx(i % 16 % 5 == 0 ? 1 : 0).epsilon(1e-3).scale(1));
  // A zero in the corner needs a change of rows.
  OnnxPair q;
  q.model().input("x", DType::F32, {2, 2}, {0, 2, 4, 1});
  q.ms("Inverse", {"x"}, {"y"});
  q.model().output("y");
  check_close(q.model().run()[0], {-0.125, 0.25, 0.5, 0});
}

TEST_CASE("distances of rows") {
  OnnxPair p;
  p.real("a", {3, 4}).real("b", {5, 4}).ints("a1", {1}).ints("b0", {0}).ints("last", {2});
  p.ms("CDist", {"a", "b"}, {"y"}, {attribute("metric", "euclidean")})
      .ms("CDist", {"a", "b"}, {"z"}, {attribute("metric", "sqeuclidean")});
  p.on("Unsqueeze", {"a", "a1"}, "au")
      .on("Unsqueeze", {"b", "b0"}, "bu")
      .on("Sub", {"au", "bu"}, "d")
      .on("Mul", {"d", "d"}, "dd");
  p.on("ReduceSum", {"dd", "last"}, "z2", {attribute("keepdims", 0)}).on("Sqrt", {"z2"}, "y2");
  p.agree({{"y", "y2"}, {"z", "z2"}});
}

TEST_CASE("complex products and Fourier transforms of real signals") {
  OnnxModel m(17);
  m.opset("com.microsoft", 1);
  const auto a = some(12, 1), b = some(4, 2), x = some(24, 3);
  m.input("a", DType::F32, {3, 2, 2}, a);
  m.input("b", DType::F32, {2, 2}, b);
  m.input("x", DType::F32, {3, 8}, x);
  m.add(node("ComplexMul", {"a", "b"}, {"p"}, {}, "com.microsoft"));
  m.add(node("ComplexMulConj", {"a", "b"}, {"q"}, {}, "com.microsoft"));
  m.add(node("Rfft", {"x"}, {"f"}, {attribute("signal_ndim", 1)}, "com.microsoft"));
  m.add(node("Irfft", {"f"}, {"back"}, {attribute("signal_ndim", 1)}, "com.microsoft"));
  for (const char* name : {"p", "q", "f", "back"}) m.output(name);
  const auto got = m.run();
  std::vector<double> p, q, f;
  for (size_t i = 0; i < 6; ++i) {
    const double ar = a[2 * i], ai = a[2 * i + 1], br = b[i % 2 * 2], bi = b[i % 2 * 2 + 1];
    for (double v : {ar * br - ai * bi, ar * bi + ai * br}) p.push_back(v);
    for (double v : {ar * br + ai * bi, ai * br - ar * bi}) q.push_back(v);
  }
  for (size_t row = 0; row < 3; ++row)
    for (size_t k = 0; k < 5; ++k) {
      double re = 0, im = 0;
      for (size_t n = 0; n < 8; ++n) {
        const double angle = -2 * 3.14159265358979323846 * static_cast<double>(k * n) / 8;
        re += x[row * 8 + n] * std::cos(angle), im += x[row * 8 + n] * std::sin(angle);
      }
      f.push_back(re), f.push_back(im);
    }
  check_close(got[0], p);
  check_close(got[1], q);
  check_close(got[2], f);
  check_close(got[3], x);
}

TEST_CASE("sampling of images, as grid sampling of ai.onnx") {
  OnnxPair p(16);
  p.real("x", {1, 2, 4, 5}).real("grid", {1, 3, 3, 2});
  p.ms("GridSample", {"x", "grid"}, {"y"}, {attribute("mode", "bilinear"), attribute("padding_mode", "border")});
  p.on("GridSample", {"x", "grid"}, "y2", {attribute("mode", "bilinear"), attribute("padding_mode", "border")});
  p.agree({{"y", "y2"}});
}
