#include <cmath>

#include "support/onnx_model.h"

using namespace rlxc;
using namespace rlxc::test;

TEST_CASE("SwiGLU, expressions, numbers of two bits") {
  OnnxModel m(28);
  const auto a = some(6, 10), b = some(6, 11);
  m.input("a", DType::F32, {2, 3}, a);
  m.input("b", DType::F32, {2, 3}, b);
  m.input("n", DType::F32, {5}, {-3, -1.5, 0.5, 1, 9});
  m.add(node("SwiGLU", {"a", "b"}, {"y"}, {attribute("alpha", 1.5)}));
  m.add(node("Constant", {}, {"words"},
             {attribute("value_strings", std::vector<std::string>{"www.onnx.ai", "onnx.ai", "www.a b"})}));
  m.add(node("RegexFullMatch", {"words"}, {"match"}, {attribute("pattern", R"(www\.[\w.]+)")}));
  m.add(node("Cast", {"n"}, {"i2"}, {attribute("to", onnx_dtype(DType::I2))}));
  m.add(node("Cast", {"n"}, {"u2"}, {attribute("to", onnx_dtype(DType::U2))}));
  m.add(node("Cast", {"i2"}, {"i"}, {attribute("to", 1)}));
  m.add(node("Cast", {"u2"}, {"u"}, {attribute("to", 1)}));
  for (const char* name : {"y", "match", "i2", "u2", "i", "u"}) m.output(name);
  std::vector<double> y;
  for (size_t i = 0; i < 6; ++i) y.push_back(a[i] / (1 + std::exp(-1.5 * a[i])) * b[i]);
  const auto got = m.run();
  check_close(got[0], y);
  CHECK(got[1] == std::vector<double>{1, 0, 0});
  CHECK(got[2] == std::vector<double>{1, -1, 0, 1, 1});  // the low bits
  CHECK(got[3] == std::vector<double>{1, 3, 0, 1, 1});
  CHECK(got[4] == got[2]);
  CHECK(got[5] == got[3]);
}

TEST_CASE("casts to powers of two round as they are told") {
  const double big = std::ldexp(1.5, 127), small = std::ldexp(1.0, -127);
  const std::vector<double> x{0, 1, 1.25, 1.5, 1.75, -3, 4, big, std::ldexp(1.25, -127), INFINITY, NAN};
  const std::vector<std::pair<const char*, std::vector<double>>> expected{
      {"up", {small, 1, 2, 2, 2, 4, 4, std::ldexp(1.0, 127), 2 * small, NAN, NAN}},
      {"down", {small, 1, 1, 1, 1, 2, 4, std::ldexp(1.0, 127), small, NAN, NAN}},
      {"nearest", {small, 1, 1, 2, 2, 4, 4, std::ldexp(1.0, 127), 2 * small, NAN, NAN}}};
  OnnxModel m(25);
  m.input("x", DType::F32, {static_cast<int64_t>(x.size())}, x);
  for (const auto& [mode, values] : expected) {
    m.add(node("Cast", {"x"}, {mode}, {attribute("to", onnx_dtype(DType::F8E8M0)), attribute("round_mode", mode)}));
    m.output(mode);
  }
  const auto got = m.run();
  for (size_t k = 0; k < expected.size(); ++k)
    for (size_t i = 0; i < x.size(); ++i) {
      INFO(expected[k].first, " of ", x[i]);
      if (std::isnan(expected[k].second[i])) CHECK(std::isnan(got[k][i]));
      else CHECK(got[k][i] == expected[k].second[i]);
    }
}
