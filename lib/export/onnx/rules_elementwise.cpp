// Elementwise operations as operators of ONNX.
#include <cmath>

#include "export/onnx/writer.h"

namespace rlxc::onnx_export {
namespace {

bool is_float_or_wide(DType t) { return is_float(t) || is_wide(t); }
bool is_any_float(DType t) { return is_float(t); }
constexpr TypeLimit kArithmetic{14, is_float_or_wide}, kNoBf16{16, is_not_bf16};

struct Name {
  OpKind op;
  std::string_view onnx;
  int64_t since = kOldestOpset;
  TypeLimit types = {};
};
constexpr Name kNames[] = {
    {OpKind::Relu, "Relu", kOldestOpset, {14, is_any_float}},
    {OpKind::Sigmoid, "Sigmoid"},
    {OpKind::Tanh, "Tanh"},
    {OpKind::Exp, "Exp"},
    {OpKind::Log, "Log"},
    {OpKind::Sqrt, "Sqrt"},
    {OpKind::Recip, "Reciprocal"},
    {OpKind::Neg, "Neg"},
    {OpKind::Abs, "Abs"},
    {OpKind::Sign, "Sign"},
    {OpKind::Sin, "Sin"},
    {OpKind::Cos, "Cos"},
    {OpKind::Tan, "Tan"},
    {OpKind::Asin, "Asin"},
    {OpKind::Acos, "Acos"},
    {OpKind::Atan, "Atan"},
    {OpKind::Sinh, "Sinh"},
    {OpKind::Cosh, "Cosh"},
    {OpKind::Asinh, "Asinh"},
    {OpKind::Acosh, "Acosh"},
    {OpKind::Atanh, "Atanh"},
    {OpKind::Round, "Round"},
    {OpKind::Floor, "Floor"},
    {OpKind::Ceil, "Ceil"},
    {OpKind::Erf, "Erf"},
    {OpKind::Softplus, "Softplus"},
    {OpKind::Softsign, "Softsign"},
    {OpKind::Gelu, "Gelu", 20},
    {OpKind::Mish, "Mish", 18},
    {OpKind::HardSwish, "HardSwish", 14},
    {OpKind::Not, "Not"},
    {OpKind::BitNot, "BitwiseNot", 18},
    {OpKind::IsNan, "IsNaN"},
    {OpKind::Sub, "Sub", kOldestOpset, kArithmetic},
    {OpKind::Mul, "Mul", kOldestOpset, kArithmetic},
    {OpKind::Div, "Div", kOldestOpset, kArithmetic},
    {OpKind::Max, "Max"},
    {OpKind::Min, "Min"},
    {OpKind::Pow, "Pow", kOldestOpset, {15, is_not_bf16, 1}},
    {OpKind::BitAnd, "BitwiseAnd", 18},
    {OpKind::BitOr, "BitwiseOr", 18},
    {OpKind::BitXor, "BitwiseXor", 18},
    {OpKind::And, "And"},
    {OpKind::Or, "Or"},
    {OpKind::Xor, "Xor"},
    {OpKind::PRelu, "PRelu", kOldestOpset, kNoBf16},
    {OpKind::Eq, "Equal"},
    {OpKind::Lt, "Less"},
    {OpKind::Le, "LessOrEqual", kOldestOpset, kNoBf16},
    {OpKind::Gt, "Greater"},
    {OpKind::Ge, "GreaterOrEqual", kOldestOpset, kNoBf16},
    {OpKind::Where, "Where", kOldestOpset, {16, is_not_bf16, 1}},
};

bool by_name(const Site& s) {
  for (const Name& n : kNames)
    if (n.op == s.g.op(s.n)) return s.be(n.onnx, s.all());
  return false;
}

// Attributes alpha and beta under the names that ONNX gives them.
template <int kIndex>
bool parametric(const Site& s) {
  struct Row {
    std::string_view onnx, alpha, beta;
  };
  static constexpr Row kRows[] = {{"HardSigmoid", "alpha", "beta"}, {"Elu", "alpha", ""},
                                  {"Selu", "alpha", "gamma"},       {"Celu", "alpha", ""},
                                  {"LeakyRelu", "alpha", ""},       {"ThresholdedRelu", "alpha", ""},
                                  {"Shrink", "lambd", "bias"}};
  const Row& row = kRows[kIndex];
  const auto a = s.attrs<AlphaBetaAttrs>();
  Attributes attributes;
  attributes.number(row.alpha, a.alpha);
  if (!row.beta.empty()) attributes.number(row.beta, a.beta);
  return s.be(row.onnx, s.all(), attributes);
}

bool gelu_approx(const Site& s) { return s.be("Gelu", s.all(), Attributes().string("approximate", "tanh")); }
bool silu(const Site& s) { return s.be("Mul", {s.in(0), s.w.node("Sigmoid", {s.in(0)})}); }
bool swish(const Site& s) {
  const std::string scaled = s.w.node("Mul", {s.in(0), s.w.scalar(s.dtype(0), s.attrs<AlphaBetaAttrs>().alpha)});
  return s.be("Mul", {s.in(0), s.w.node("Sigmoid", {scaled})});
}
bool expm1(const Site& s) { return s.be("Sub", {s.w.node("Exp", {s.in(0)}), s.w.scalar(s.dtype(0), 1)}); }
bool log1p(const Site& s) { return s.be("Log", {s.w.node("Add", {s.in(0), s.w.scalar(s.dtype(0), 1)})}); }
bool rsqrt(const Site& s) { return s.be("Reciprocal", {s.w.node("Sqrt", {s.in(0)})}); }
bool log_sigmoid(const Site& s) { return s.be("Neg", {s.w.node("Softplus", {s.w.node("Neg", {s.in(0)})})}); }
bool clamp(const Site& s) {
  const ClampAttrs a = s.attrs<ClampAttrs>();
  const std::string low = std::isinf(a.min) ? "" : s.w.scalar(s.dtype(0), a.min),
                    high = std::isinf(a.max) ? "" : s.w.scalar(s.dtype(0), a.max);
  return s.be("Clip", {s.in(0), low, high});
}
bool is_inf(const Site& s) {
  const AlphaBetaAttrs a = s.attrs<AlphaBetaAttrs>();
  return s.be("IsInf", s.all(), Attributes().integer("detect_negative", a.alpha != 0).integer("detect_positive", a.beta != 0));
}
bool cast(const Site& s) {
  const CastAttrs c = s.attrs<CastAttrs>();
  Attributes a;
  a.integer("to", onnx_dtype(c.to));
  if (s.w.opset() >= 19) a.integer("saturate", c.saturate);
  return s.be("Cast", s.all(), a);
}
// A Gemm if one operand is a product that nothing else reads.
bool add(const Site& s) {
  const NodeId product = product_of_gemm(s.g, s.n);
  if (!product.valid()) return s.be("Add", s.all());
  const MatMulAttrs& a = s.g.attrs<MatMulAttrs>(product);
  const bool first = s.g.operand(s.n, 0) == s.g.result(product);
  return s.be("Gemm", {s.w.name_of(s.g, s.g.operand(product, 0)), s.w.name_of(s.g, s.g.operand(product, 1)), s.in(first ? 1 : 0)},
              Attributes().integer("transA", a.trans_a).integer("transB", a.trans_b));
}
bool is_cast(const Graph& g, NodeId n, int64_t opset) {
  return has_dtype(g.dtype(g.operand(n, 0)), opset) && has_dtype(g.attrs<CastAttrs>(n).to, opset);
}
// ONNX has only the float remainder with the sign of the dividend (fmod).
bool mod(const Site& s) {
  if (!is_float(s.dtype(0))) return s.be("Mod", s.all());
  const std::string times = s.w.node("Mul", {s.in(1), s.w.node("Floor", {s.w.node("Div", s.all())})});
  return s.be("Sub", {s.in(0), times});
}
bool fmod(const Site& s) { return s.be("Mod", s.all(), Attributes().integer("fmod", 1)); }
bool ne(const Site& s) { return s.be("Not", {s.w.node("Equal", s.all())}); }
bool fma(const Site& s) { return s.be("Add", {s.w.node("Mul", {s.in(0), s.in(1)}), s.in(2)}); }
bool mul_no_nan(const Site& s) {
  const std::string zero = s.w.scalar(s.dtype(0), 0), product = s.w.node("Mul", s.all());
  const std::string first = s.w.node("Equal", {s.in(0), zero}), second = s.w.node("Equal", {s.in(1), zero});
  return s.be("Where", {s.w.node("Or", {first, second}), zero, product});
}
bool stop_gradient(const Site& s) { return s.be("StopGradient", s.all(), {}, kOwnDomain); }
template <bool kLeft>
bool shift(const Site& s) {
  return s.be("BitShift", s.all(), Attributes().string("direction", kLeft ? "LEFT" : "RIGHT"));
}
bool is_unsigned(const Graph& g, NodeId n, int64_t) { return dtype_class(g.dtype(g.operand(n, 0))) == DTypeClass::UInt; }
// The angle of (x, y) by that of y / x, and the quadrant.
bool atan2(const Site& s) {
  const DType t = s.dtype(0);
  const std::string y = s.in(0), x = s.in(1), zero = s.w.scalar(t, 0), pi = s.w.scalar(t, M_PI), half = s.w.scalar(t, M_PI / 2);
  const std::string still = s.w.node("Equal", {x, zero}), safe = s.w.node("Where", {still, s.w.scalar(t, 1), x});
  const std::string angle = s.w.node("Atan", {s.w.node("Div", {y, safe})});
  const std::string down = s.w.node("Less", {y, zero}), back = s.w.node("Less", {x, zero});
  const std::string turn = s.w.node("Where", {back, s.w.node("Where", {down, s.w.node("Neg", {pi}), pi}), zero});
  const std::string upright = s.w.node("Mul", {s.w.node("Sign", {y}), half});
  return s.be("Where", {still, upright, s.w.node("Add", {angle, turn})});
}

}  // namespace

std::span<const RuleEntry> elementwise_rules() {
  static const auto table = [] {
    std::vector<RuleEntry> rows;
    for (const Name& n : kNames) rows.push_back({n.op, by_name, nullptr, n.since, n.types});
    for (const RuleEntry& e : std::initializer_list<RuleEntry>{{OpKind::HardSigmoid, parametric<0>},
                                                               {OpKind::Elu, parametric<1>},
                                                               {OpKind::Selu, parametric<2>},
                                                               {OpKind::Celu, parametric<3>},
                                                               {OpKind::LeakyRelu, parametric<4>, nullptr, kOldestOpset, kNoBf16},
                                                               {OpKind::ThresholdedRelu, parametric<5>},
                                                               {OpKind::Shrink, parametric<6>},
                                                               {OpKind::Add, add, nullptr, kOldestOpset, kArithmetic},
                                                               {OpKind::GeluApprox, gelu_approx, nullptr, 20},
                                                               {OpKind::Silu, silu},
                                                               {OpKind::Swish, swish},
                                                               {OpKind::Expm1, expm1},
                                                               {OpKind::Log1p, log1p},
                                                               {OpKind::Rsqrt, rsqrt},
                                                               {OpKind::LogSigmoid, log_sigmoid},
                                                               {OpKind::Clamp, clamp},
                                                               {OpKind::IsInf, is_inf, nullptr, kOldestOpset, {20, is_wide}},
                                                               {OpKind::Cast, cast, is_cast},
                                                               {OpKind::Mod, mod},
                                                               {OpKind::Fmod, fmod},
                                                               {OpKind::Ne, ne},
                                                               {OpKind::MulNoNan, mul_no_nan, nullptr, 11},
                                                               {OpKind::StopGradient, stop_gradient},
                                                               {OpKind::Fma, fma},
                                                               {OpKind::Shl, shift<true>, is_unsigned},
                                                               {OpKind::Shr, shift<false>, is_unsigned},
                                                               {OpKind::Atan2, atan2}})
      rows.push_back(e);
    return rows;
  }();
  return table;
}

}  // namespace rlxc::onnx_export
