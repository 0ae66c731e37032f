// Derivatives of elementwise operations, a formula each. Where an operation has no derivative (the corners of relu, abs, clamp)
// it is that of one side; equal operands of max and min leave the gradient to the first. Where it is infinite though the
// operation is finite (sqrt at 0, asin at 1), it is 0. A factor that may be infinite or NaN meets the gradient in MulNoNan: what
// a Where, Max or Clamp does not take has the gradient 0, and contributes 0 whatever its slope is.
#include <cmath>
#include <numbers>
#include <optional>

#include "transform/rules.h"

namespace rlxc::transform {
namespace {

using std::numbers::inv_sqrtpi, std::numbers::sqrt2;
constexpr double kSqrt2OverPi = 0.79788456080286535588;

Term one(Term x, double value = 1) { return expand(x.number(value), x.dims()); }
Term step(Term condition, Term x, double value = 1) { return select(condition, x.number(value), x.number(0)); }

Term gelu_tanh(Term x) {
  const Term x2 = square(x), t = tanh(x * (x2 * 0.044715 + 1) * kSqrt2OverPi);
  return (t + 1) * 0.5 + mul_no_nan(x * 0.5 * (1 - square(t)), (x2 * (3 * 0.044715) + 1) * kSqrt2OverPi);
}
Term swish(double alpha, Term x) {
  const Term s = sigmoid(x * alpha);
  return s * (x * alpha * (1 - s) + 1);
}
Term mish(Term x) {
  const Term t = tanh(softplus(x));
  return t + x * (1 - square(t)) * sigmoid(x);
}

// The number that all elements of a constant are.
std::optional<double> number_of(const Graph& g, ValueId v) {
  const NodeId n = g.def(v);
  if (g.op(n) != OpKind::Constant) return std::nullopt;
  const TensorData& d = g.module().data[g.attrs<DataAttrs>(n).data];
  if (d.bytes.empty() || !(d.splat || d.elements() == 1) || !is_float(d.dtype)) return std::nullopt;
  return element_as_double(d, 0);
}

struct SlopeRow {
  OpKind op;
  Term (*at)(double alpha, double beta, Term x, Term y);
};
#define SLOPE(op, ...)                                                                                                         \
  {OpKind::op,                                                                                                                 \
   []([[maybe_unused]] double alpha, [[maybe_unused]] double beta, [[maybe_unused]] Term x, [[maybe_unused]] Term y) -> Term { \
     return __VA_ARGS__;                                                                                                       \
   }},
constexpr SlopeRow kSlopes[] = {
    // clang-format off
    SLOPE(Gelu, (erf(x * (1 / sqrt2)) + 1) * 0.5 + x * exp(square(x) * -0.5) * (inv_sqrtpi / sqrt2))
    SLOPE(GeluApprox, gelu_tanh(x))
    SLOPE(Silu, swish(1, x))
    SLOPE(Swish, swish(alpha, x))
    SLOPE(Relu, step(x > 0, x))
    SLOPE(Sigmoid, y * (1 - y))
    SLOPE(Tanh, 1 - square(y))
    SLOPE(Exp, y)
    SLOPE(Expm1, y + 1)
    SLOPE(Log, recip(x))
    SLOPE(Log1p, recip(x + 1))
    SLOPE(Sqrt, select(x > 0, 0.5 / y, 0.0))
    SLOPE(Rsqrt, select(x > 0, y * square(y) * -0.5, 0.0))
    SLOPE(Recip, -square(y))
    SLOPE(Neg, one(x, -1))
    SLOPE(Abs, sign(x))
    SLOPE(Sign, one(x, 0))
    SLOPE(Sin, cos(x))
    SLOPE(Cos, -sin(x))
    SLOPE(Tan, square(y) + 1)
    SLOPE(Asin, select(equal(abs(x), 1.0), 0.0, rsqrt(1 - square(x))))
    SLOPE(Acos, select(equal(abs(x), 1.0), 0.0, -rsqrt(1 - square(x))))
    SLOPE(Atan, recip(square(x) + 1))
    SLOPE(Sinh, cosh(x))
    SLOPE(Cosh, sinh(x))
    SLOPE(Asinh, rsqrt(square(x) + 1))
    SLOPE(Acosh, select(equal(x, 1.0), 0.0, rsqrt(square(x) - 1)))
    SLOPE(Atanh, recip(1 - square(x)))
    SLOPE(Round, one(x))
    SLOPE(Floor, one(x, 0))
    SLOPE(Ceil, one(x, 0))
    SLOPE(Erf, exp(-square(x)) * (2 * inv_sqrtpi))
    SLOPE(Softplus, sigmoid(x))
    SLOPE(Softsign, recip(square(abs(x) + 1)))
    SLOPE(Mish, mish(x))
    SLOPE(LogSigmoid, sigmoid(-x))
    SLOPE(HardSigmoid, step(both(x * alpha > -beta, x * alpha < 1 - beta), x, alpha))
    SLOPE(HardSwish, select(x >= 3, x.number(1), select(x <= -3, 0.0, x / 3 + 0.5)))
    SLOPE(Elu, select(x < 0, y + alpha, 1.0))
    SLOPE(Selu, select(x < 0, y + alpha * beta, beta))
    SLOPE(Celu, select(x < 0, exp(x / alpha), 1.0))
    SLOPE(LeakyRelu, select(x < 0, x.number(alpha), x.number(1)))
    SLOPE(ThresholdedRelu, step(x > alpha, x))
    SLOPE(Shrink, step(abs(x) > alpha, x))
    SLOPE(Clamp, step(both(x > alpha, x < beta), x))
    // clang-format on
};
#undef SLOPE

const SlopeRow* find_slope(OpKind op) {
  for (const SlopeRow& r : kSlopes)
    if (r.op == op) return &r;
  return nullptr;
}

#define RULE(name, ...)                                              \
  bool name(Adjoint& a) {                                            \
    [[maybe_unused]] const Term g = a.g(), x = a.in(0), y = a.in(1); \
    __VA_ARGS__ return true;                                         \
  }
RULE(add, a.give(0, g); a.give(1, g);)
RULE(sub, a.give(0, g); a.give(1, -g);)
RULE(mul, a.give(0, product(g, y)); a.give(1, product(g, x));)
RULE(div, a.give(0, quotient(g, y)); a.give(1, -product(g, a.out() / y));)
RULE(max_, a.give(0, select(equal(x, a.out()), g, 0.0)); a.give(1, select(equal(x, a.out()), 0.0, g));)
RULE(pow_, if (a.wants(0)) a.give(0, product(g, pow_slope(x, y)));
     if (a.wants(1)) a.give(1, product(g, exponent_slope(x, a.out())));)
RULE(mod, a.give(0, g); a.give(1, -product(g, floor(x / y)));)
RULE(fmod, if (a.wants(1)) a.give(1, -product(g, sign(x / y) * floor(abs(x / y)))); a.give(0, g);)
RULE(atan2, a.give(0, product(g, angle_slope(x, y, y))); a.give(1, -product(g, angle_slope(x, y, x)));)
RULE(prelu, a.give(0, select(x < 0, product(g, y), g)); a.give(1, select(x < 0, product(g, x), 0.0));)
RULE(fma, a.give(0, product(g, y)); a.give(1, product(g, x)); a.give(2, g);)
// Both factors and their product: the gradient of a product is one of its kind, so that higher derivatives keep the zeros.
RULE(mul_no_nan_, a.give(0, product(g, y)); a.give(1, product(g, x));)
RULE(where, a.give(1, select(x, g, 0.0)); a.give(2, select(x, 0.0, g));)
RULE(cast, a.give(0, {g.b, g.b->cast(g.v, x.dtype())});)
#undef RULE

}  // namespace

Term product(Term g, Term factor) {
  if (!g.valid() || !factor.valid()) return factor.with({});
  const Graph& graph = g.b->graph();
  NodeId n = graph.def(factor.v);
  if (graph.op(n) == OpKind::Where && number_of(graph, graph.operand(n, 1)) == 1.0 &&
      number_of(graph, graph.operand(n, 2)) == 0.0)
    return select(g.with(graph.operand(n, 0)), g, 0.0);
  while (graph.op(n) == OpKind::Expand || graph.op(n) == OpKind::Reshape || graph.op(n) == OpKind::Neg)
    n = graph.def(graph.operand(n, 0));
  const auto number = number_of(graph, graph.result(n));
  return number && std::isfinite(*number) ? g * factor : mul_no_nan(g, factor);
}

Term quotient(Term g, Term by) {
  if (!g.valid() || !by.valid()) return by.with({});
  if (const auto number = number_of(g.b->graph(), by.v); number && *number != 0 && !std::isnan(*number)) return g / by;
  // Reciprocals of small f16 overflow.
  const DType t = by.dtype() == DType::F64 ? DType::F64 : DType::F32;
  return mul_no_nan(g.as(t), recip(by.as(t))).as(g.dtype());
}

Term pow_slope(Term x, Term y) { return y * select(both(equal(x, 0.0), y < 1.0), 0.0, pow(x, y - 1)); }
// The logarithm counts where the base is positive only.
Term exponent_slope(Term x, Term z) { return mul_no_nan(z, select(x > 0, log(select(x > 0, x, 1.0)), 0.0)); }
Term angle_slope(Term x, Term y, Term side) {
  const Term r = square(x) + square(y);
  return side / select(equal(r, 0.0), 1.0, r);
}

void slope_parameters(const Attrs& attrs, double* alpha, double* beta) {
  if (const auto* ab = std::get_if<AlphaBetaAttrs>(&attrs)) {
    *alpha = ab->alpha;
    *beta = ab->beta;
  }
  if (const auto* c = std::get_if<ClampAttrs>(&attrs)) {
    *alpha = c->min;
    *beta = c->max;
  }
}
bool has_slope(OpKind op) { return find_slope(op) != nullptr; }
Term slope(OpKind op, double alpha, double beta, Term x, Term y) {
  const SlopeRow* row = find_slope(op);
  return row && x.valid() && y.valid() ? row->at(alpha, beta, x, y) : Term{x.b, {}};
}

std::span<const RuleEntry> selection_rules() {
  static constexpr RuleEntry kTable[] = {
      {OpKind::Add, add},     {OpKind::Sub, sub},  {OpKind::Mul, mul},     {OpKind::Div, div},   {OpKind::Max, max_},
      {OpKind::Min, max_},    {OpKind::Pow, pow_}, {OpKind::Mod, mod},     {OpKind::Fmod, fmod}, {OpKind::Atan2, atan2},
      {OpKind::PRelu, prelu}, {OpKind::Fma, fma},  {OpKind::Where, where}, {OpKind::Cast, cast}, {OpKind::MulNoNan, mul_no_nan_},
  };
  return kTable;
}

}  // namespace rlxc::transform
