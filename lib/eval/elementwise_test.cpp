#include <cmath>
#include <limits>

#include "support/eval.h"

using namespace rlxc;
using namespace rlxc::test;
using enum OpKind;

namespace {
const double kInf = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();

void unary(OpKind op, Attrs attrs, double (*f)(double), const std::vector<double>& x) {
  std::vector<double> y;
  for (double v : x) y.push_back(static_cast<float>(f(static_cast<float>(v))));
  INFO(name(op));
  check_values(run1(op, std::move(attrs), {f32({static_cast<int64_t>(x.size())}, x)}), y);
}
}  // namespace

TEST_CASE("elementwise: activations against their formulas") {
  const std::vector<double> x{-4, -1.5, -0.25, 0, 0.5, 1, 3.75};
  unary(
      Gelu, NoAttrs{}, [](double v) { return v * 0.5 * std::erfc(-v / std::sqrt(2.0)); }, x);
  unary(
      GeluApprox, NoAttrs{}, [](double v) { return 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v))); },
      x);
  unary(
      Silu, NoAttrs{}, [](double v) { return v / (1 + std::exp(-v)); }, x);
  unary(
      Softplus, NoAttrs{}, [](double v) { return std::log(1 + std::exp(v)); }, x);
  unary(
      Mish, NoAttrs{}, [](double v) { return v * std::tanh(std::log(1 + std::exp(v))); }, x);
  unary(
      LogSigmoid, NoAttrs{}, [](double v) { return std::log(1 / (1 + std::exp(-v))); }, x);
  unary(
      HardSwish, NoAttrs{}, [](double v) { return v * std::min(1.0, std::max(0.0, v / 6 + 0.5)); }, x);
  unary(
      HardSigmoid, AlphaBetaAttrs{0.2, 0.5}, [](double v) { return std::min(1.0, std::max(0.0, 0.2 * v + 0.5)); }, x);
  unary(
      Elu, AlphaBetaAttrs{2, 0}, [](double v) { return v < 0 ? 2 * (std::exp(v) - 1) : v; }, x);
  unary(
      Selu, AlphaBetaAttrs{1.5, 2}, [](double v) { return 2 * (v < 0 ? 1.5 * (std::exp(v) - 1) : v); }, x);
  unary(
      Celu, AlphaBetaAttrs{2, 0}, [](double v) { return std::max(0.0, v) + std::min(0.0, 2 * (std::exp(v / 2) - 1)); }, x);
  unary(
      Shrink, AlphaBetaAttrs{1, 0.5}, [](double v) { return v < -1  ? v + 0.5
                                                            : v > 1 ? v - 0.5
                                                                    : 0; }, x);
  unary(
      ThresholdedRelu, AlphaBetaAttrs{0.75, 0}, [](double v) { return v > 0.75 ? v : 0; }, x);
  unary(
      Swish, AlphaBetaAttrs{2, 0}, [](double v) { return v / (1 + std::exp(-2 * v)); }, x);
  unary(
      Clamp, ClampAttrs{-1, 2}, [](double v) { return std::min(2.0, std::max(-1.0, v)); }, x);
}

TEST_CASE("elementwise: edges") {
  check_values(run1(Round, NoAttrs{}, {f32({6}, {-2.5, -1.5, -0.5, 0.5, 1.5, 2.5})}), {-2, -2, 0, 0, 2, 2});
  check_values(run1(Softplus, NoAttrs{}, {f32({3}, {1000, -1000, kNan})}), {1000, 0, kNan});
  check_values(run1(Mish, NoAttrs{}, {f32({2}, {1000, -1000})}), {1000, 0});
  check_values(run1(LogSigmoid, NoAttrs{}, {f32({2}, {-1000, 1000})}), {-1000, 0});
  check_values(run1(Sign, NoAttrs{}, {f32({4}, {-3, 0, 7, kNan})}), {-1, 0, 1, kNan});
  check_values(run1(Max, NoAttrs{}, {f32({4}, {1, kNan, 2, kInf}), f32({4}, {kNan, 1, 3, 0})}), {kNan, kNan, 3, kInf});
  check_values(run1(Min, NoAttrs{}, {f32({3}, {1, kNan, 2}), f32({3}, {kNan, 1, 3})}), {kNan, kNan, 2});
  check_values(run1(IsInf, AlphaBetaAttrs{1, 0}, {f32({3}, {kInf, -kInf, kNan})}), {0, 1, 0});
  check_values(run1(IsInf, AlphaBetaAttrs{1, 1}, {f32({3}, {kInf, -kInf, kNan})}), {1, 1, 0});
  check_values(run1(Expm1, NoAttrs{}, {tensor_of(DType::F64, {1}, {1e-12})}), {std::expm1(1e-12)}, 1e-14);
}

TEST_CASE("elementwise: integers are exact, wrap, and never trap") {
  const auto i32 = [](std::vector<double> v) { return tensor_of(DType::I32, {static_cast<int64_t>(v.size())}, v); };
  const double low = -2147483648.0;
  check_values(run1(Div, NoAttrs{}, {i32({7, -7, 5, low}), i32({2, 2, 0, -1})}), {3, -3, 0, low});
  check_values(run1(Mod, NoAttrs{}, {i32({7, -7, 7, -7}), i32({3, 3, -3, -3})}), {1, 2, -2, -1});
  check_values(run1(Fmod, NoAttrs{}, {i32({7, -7, 7, -7}), i32({3, 3, -3, -3})}), {1, -1, 1, -1});
  check_values(run1(Add, NoAttrs{}, {i32({2147483647.0}), i32({1})}), {low});
  check_values(run1(Pow, NoAttrs{}, {i32({2, -3, 2, -1}), i32({10, 3, -1, -3})}), {1024, -27, 0, -1});
  check_values(run1(Pow, NoAttrs{}, {i32({4, 9}), f32({2}, {0.5, 0.5})}), {2, 3});
  const auto u8 = [](std::vector<double> v) { return tensor_of(DType::U8, {static_cast<int64_t>(v.size())}, v); };
  check_values(run1(Shl, NoAttrs{}, {u8({1, 255, 1}), u8({3, 1, 8})}), {8, 254, 0});
  check_values(run1(Shr, NoAttrs{}, {u8({200, 255, 1}), u8({3, 1, 8})}), {25, 127, 0});
  check_values(run1(BitNot, NoAttrs{}, {u8({0, 5})}), {255, 250});
  check_values(run1(Sub, NoAttrs{}, {u8({1}), u8({2})}), {255});
  const auto u64 = tensor_of(DType::U64, {1}, {18446744073709549568.0});
  check_values(run1(Gt, NoAttrs{}, {u64, tensor_of(DType::U64, {1}, {1})}), {1});
  check_values(run1(Div, NoAttrs{}, {u64, tensor_of(DType::U64, {1}, {2})}), {9223372036854774784.0});
  std::string message;
  run_op(Exp, NoAttrs{}, {i32({1})}, &message);
  CHECK(message.find("not defined for i32") != std::string::npos);
}

TEST_CASE("elementwise: broadcasting, bools, narrow floats") {
  check_values(run1(Add, NoAttrs{}, {f32({2, 1, 2}, {1, 2, 3, 4}), f32({3, 1}, {10, 20, 30})}),
               {11, 12, 21, 22, 31, 32, 13, 14, 23, 24, 33, 34});
  const auto c = tensor_of(DType::Bool, {2, 1}, {1, 0});
  check_values(run1(Where, NoAttrs{}, {c, f32({1, 2}, {1, 2}), f32({}, {9})}), {1, 2, 9, 9});
  check_values(run1(Xor, NoAttrs{}, {tensor_of(DType::Bool, {2}, {1, 0}), tensor_of(DType::Bool, {1}, {1})}), {0, 1});
  check_values(run1(Not, NoAttrs{}, {tensor_of(DType::Bool, {2}, {1, 0})}), {0, 1});
  check_values(run1(Add, NoAttrs{}, {tensor_of(DType::F16, {1}, {2048}), tensor_of(DType::F16, {1}, {1})}), {2048});
  check_values(run1(Fma, NoAttrs{}, {f32({1}, {3}), f32({2}, {4, 5}), f32({1}, {1})}), {13, 16});
  check_values(run1(PRelu, NoAttrs{}, {f32({2, 2}, {-1, 2, -3, 4}), f32({2}, {0.5, 0.25})}), {-0.5, 2, -1.5, 4});
}

TEST_CASE("cast: the rules of conversion") {
  const auto to = [](DType t, const HostValue& v, bool saturate = true) { return run1(Cast, CastAttrs{t, saturate}, {v}); };
  check_values(to(DType::I8, f32({5}, {-1.9, 1.9, 300, -300, kNan})), {-1, 1, 127, -128, 0});
  check_values(to(DType::U8, tensor_of(DType::I32, {2}, {-1, 256})), {255, 0});
  check_values(to(DType::Bool, f32({3}, {0, 0.25, kNan})), {0, 1, 1});
  check_values(to(DType::I4, f32({5}, {-9, 3, 9, -1.9, kNan})), {7, 3, -7, -1, 0});  // the low bits
  check_values(to(DType::U2, f32({3}, {-1, 2.9, 5})), {3, 2, 1});
  check_values(to(DType::F32, tensor_of(DType::U4, {3}, {15, 0, 7})), {15, 0, 7});
  check_values(to(DType::F8E4M3FN, f32({2}, {1000, 0.3})), {448, 0.3125});
  check_values(to(DType::F8E5M2, f32({1}, {1e6}), false), {kInf});
  const auto text = to(DType::String, f32({4}, {0.5, -1, kInf, kNan}));
  CHECK(text.tensor.strings == std::vector<std::string>{"0.5", "-1", "INF", "NaN"});
  check_values(to(DType::F32, eval::strings_of({3}, {"1.5", "-INF", "NaN"})), {1.5, -kInf, kNan});
}

TEST_CASE("elementwise region: every step rounds to its type") {
  FusionAttrs r;
  r.steps.push_back({Add, DType::F32, {0, 1, RegionStep::kNone}});
  r.steps.push_back({Cast, DType::F16, {RegionStep::kStep | 0, RegionStep::kNone, RegionStep::kNone}});
  r.steps.push_back({Cast, DType::F32, {RegionStep::kStep | 1, RegionStep::kNone, RegionStep::kNone}});
  r.steps.push_back({Clamp, DType::F32, {RegionStep::kStep | 2, RegionStep::kNone, RegionStep::kNone}, ClampAttrs{0, 2050}});
  check_values(run1(ElementwiseRegion, r, {f32({2, 1}, {2048, -5}), f32({1, 2}, {1, 3})}), {2048, 2050, 0, 0});
}
