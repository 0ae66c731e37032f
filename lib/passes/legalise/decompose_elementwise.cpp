// Decompositions of activations into arithmetic, for targets without them. They avoid overflow and cancellation where the
// function itself is well-conditioned.
#include <cmath>
#include <limits>
#include <numbers>

#include "passes/legalise/decompositions.h"

namespace rlxc::legalise {
namespace {

using enum OpKind;
using Values = std::vector<ValueId>;

ValueId x_of(Expansion& e) { return e.in(0); }
ValueId c(Expansion& e, double v) { return e.num(e.in(0), v); }
ValueId times(Expansion& e, ValueId x, double v) { return e.b.mul(x, c(e, v)); }
ValueId plus(Expansion& e, ValueId x, double v) { return e.b.add(x, c(e, v)); }
ValueId one_over(Expansion& e, ValueId x) { return e.b.div(e.num(x, 1), x); }
ValueId pick(Expansion& e, ValueId condition, ValueId a, ValueId b) { return e.b.create(Where, {condition, a, b}); }
ValueId below(Expansion& e, ValueId x, double v) { return e.b.create(Lt, {x, e.num(x, v)}); }
ValueId clamped(Expansion& e, ValueId x, double low, double high) { return e.b.create(Clamp, {x}, ClampAttrs{low, high}); }
double alpha(Expansion& e) { return e.attrs<AlphaBetaAttrs>().alpha; }
double beta(Expansion& e) { return e.attrs<AlphaBetaAttrs>().beta; }

Values gelu(Expansion& e) {
  const ValueId phi = plus(e, e.b.unary(Erf, times(e, x_of(e), 1 / std::numbers::sqrt2)), 1);
  return {e.b.mul(times(e, x_of(e), 0.5), phi)};
}
Values gelu_approx(Expansion& e) {
  const ValueId cube = e.b.mul(e.b.mul(x_of(e), x_of(e)), x_of(e));
  const ValueId u = times(e, e.b.add(x_of(e), times(e, cube, 0.044715)), std::sqrt(2 / std::numbers::pi));
  return {e.b.mul(times(e, x_of(e), 0.5), plus(e, e.b.unary(Tanh, u), 1))};
}
Values silu(Expansion& e) { return {e.b.mul(x_of(e), e.b.unary(Sigmoid, x_of(e)))}; }
Values swish(Expansion& e) { return {e.b.mul(x_of(e), e.b.unary(Sigmoid, times(e, x_of(e), alpha(e))))}; }
Values relu(Expansion& e) { return {e.b.create(Max, {x_of(e), c(e, 0)})}; }
Values sigmoid(Expansion& e) { return {one_over(e, plus(e, e.b.unary(Exp, e.b.unary(Neg, x_of(e))), 1))}; }
Values tanh_of(Expansion& e) {  // sign(x) * (1-t)/(1+t), t = exp(-2|x|); a cubic if 1-t cancels
  const ValueId x = x_of(e), a = e.b.unary(Abs, x), t = e.b.unary(Exp, times(e, a, -2));
  const ValueId large = e.b.mul(e.b.unary(Sign, x), e.b.div(e.b.sub(c(e, 1), t), plus(e, t, 1)));
  const ValueId small = e.b.sub(x, times(e, e.b.mul(e.b.mul(x, x), x), 1.0 / 3));
  return {pick(e, below(e, a, 0.02), small, large)};
}
// max(x,0) + log1p(exp(-|x|))
ValueId softplus_of(Expansion& e, ValueId x) {
  const ValueId t = e.b.unary(Exp, e.b.unary(Neg, e.b.unary(Abs, x)));
  return e.b.add(e.b.create(Max, {x, e.num(x, 0)}), e.b.unary(Log1p, t));
}
Values softplus(Expansion& e) { return {softplus_of(e, x_of(e))}; }
Values log_sigmoid(Expansion& e) { return {e.b.unary(Neg, softplus_of(e, e.b.unary(Neg, x_of(e))))}; }
Values mish(Expansion& e) { return {e.b.mul(x_of(e), e.b.unary(Tanh, e.b.unary(Softplus, x_of(e))))}; }
Values softsign(Expansion& e) { return {e.b.div(x_of(e), plus(e, e.b.unary(Abs, x_of(e)), 1))}; }
Values hard_sigmoid(Expansion& e) { return {clamped(e, plus(e, times(e, x_of(e), alpha(e)), beta(e)), 0, 1)}; }
Values hard_swish(Expansion& e) { return {e.b.mul(x_of(e), clamped(e, plus(e, times(e, x_of(e), 1.0 / 6), 0.5), 0, 1))}; }
ValueId elu_of(Expansion& e, double a) { return pick(e, below(e, x_of(e), 0), times(e, e.b.unary(Expm1, x_of(e)), a), x_of(e)); }
Values elu(Expansion& e) { return {elu_of(e, alpha(e))}; }
Values selu(Expansion& e) { return {times(e, elu_of(e, alpha(e)), beta(e))}; }
Values celu(Expansion& e) {
  const ValueId t = times(e, e.b.unary(Expm1, times(e, x_of(e), 1 / alpha(e))), alpha(e));
  return {e.b.add(e.b.create(Max, {x_of(e), c(e, 0)}), e.b.create(Min, {t, c(e, 0)}))};
}
Values leaky_relu(Expansion& e) { return {pick(e, below(e, x_of(e), 0), times(e, x_of(e), alpha(e)), x_of(e))}; }
Values thresholded_relu(Expansion& e) { return {pick(e, e.b.create(Gt, {x_of(e), c(e, alpha(e))}), x_of(e), c(e, 0))}; }
Values shrink(Expansion& e) {
  const ValueId high = pick(e, e.b.create(Gt, {x_of(e), c(e, alpha(e))}), plus(e, x_of(e), -beta(e)), c(e, 0));
  return {pick(e, below(e, x_of(e), -alpha(e)), plus(e, x_of(e), beta(e)), high)};
}
Values clamp(Expansion& e) {
  const auto& a = e.attrs<ClampAttrs>();
  ValueId y = x_of(e);
  const double inf = std::numeric_limits<double>::infinity();
  if (a.min != -inf) y = e.b.create(Max, {y, c(e, a.min)});
  if (a.max != inf) y = e.b.create(Min, {y, c(e, a.max)});
  return {y};
}
Values recip(Expansion& e) { return {one_over(e, x_of(e))}; }
Values rsqrt(Expansion& e) { return {one_over(e, e.b.unary(Sqrt, x_of(e)))}; }
Values expm1(Expansion& e) {  // 2t/(1-t), t = tanh(x/2), if exp(x)-1 cancels
  const ValueId t = e.b.unary(Tanh, times(e, x_of(e), 0.5));
  const ValueId near = e.b.div(times(e, t, 2), e.b.sub(c(e, 1), t));
  return {pick(e, below(e, e.b.unary(Abs, x_of(e)), 1), near, plus(e, e.b.unary(Exp, x_of(e)), -1))};
}
Values log1p(Expansion& e) {  // Kahan: log(u)*x/(u-1) with u = 1+x rounded
  const ValueId x = x_of(e), u = plus(e, x, 1), log = e.b.unary(Log, u);
  const ValueId near = e.b.div(e.b.mul(log, x), plus(e, u, -1));
  const ValueId close = pick(e, e.b.create(Eq, {u, c(e, 1)}), x, near);
  return {pick(e, below(e, e.b.unary(Abs, x), 1), close, log)};
}
Values fma(Expansion& e) { return {e.b.add(e.b.mul(e.in(0), e.in(1)), e.in(2))}; }
Values prelu(Expansion& e) { return {pick(e, below(e, x_of(e), 0), e.b.mul(e.in(1), x_of(e)), x_of(e))}; }
Values mul_no_nan(Expansion& e) {
  const auto zero_where_zero = [&](size_t i, ValueId y) {
    return pick(e, e.b.create(Eq, {e.in(i), e.num(e.in(i), 0)}), e.num(e.in(i), 0), y);
  };
  return {zero_where_zero(0, zero_where_zero(1, e.b.mul(e.in(0), e.in(1))))};
}
Values stop_gradient(Expansion& e) { return {x_of(e)}; }
Values is_nan(Expansion& e) { return {e.b.create(Ne, {x_of(e), x_of(e)})}; }

}  // namespace

std::span<const DecompositionEntry> elementwise_decompositions() {
  static constexpr DecompositionEntry kTable[] = {
      {Gelu, gelu},
      {GeluApprox, gelu_approx},
      {Silu, silu},
      {Swish, swish},
      {Relu, relu},
      {Sigmoid, sigmoid},
      {Tanh, tanh_of},
      {Softplus, softplus},
      {Mish, mish},
      {LogSigmoid, log_sigmoid},
      {Softsign, softsign},
      {HardSigmoid, hard_sigmoid},
      {HardSwish, hard_swish},
      {Elu, elu},
      {Selu, selu},
      {Celu, celu},
      {LeakyRelu, leaky_relu},
      {ThresholdedRelu, thresholded_relu},
      {Shrink, shrink},
      {Clamp, clamp},
      {Recip, recip},
      {Rsqrt, rsqrt},
      {Expm1, expm1},
      {Log1p, log1p},
      {Fma, fma},
      {PRelu, prelu},
      {IsNan, is_nan},
      {MulNoNan, mul_no_nan},
      {StopGradient, stop_gradient},
  };
  return kTable;
}

}  // namespace rlxc::legalise
