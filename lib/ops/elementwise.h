// Definitions of all elementwise ops as generic formulas: evaluated with double, Complex, Int and UInt (scalar.h), or
// instantiated with kernel::Expr to emit code. Use: visit(op, [&](auto m) { y = m(params, x); }). The formulas avoid overflow and
// cancellation where the result is representable.
#pragma once
#include "ir/opkind.h"
#include "ops/scalar.h"

namespace rlxc::ops {

// Attributes of an op: alpha and beta (min and max of clamp), and the bit width of its element type.
struct Params {
  double alpha = 0, beta = 0;
  int width = 64;
};

// Types that a definition accepts.
enum Domain : unsigned {
  kFloats = 1,
  kIntegers = 2,
  kBools = 4,
  kComplexes = 8,
  kNumbers = kFloats | kIntegers,
  kFields = kNumbers | kComplexes
};

template <OpKind op>
struct Meaning {
  static constexpr unsigned domain = 0;
  static constexpr int arity = 0;
};

#define RLXC_MEANING(id, count, arguments, types, ...) \
  template <>                                          \
  struct Meaning<OpKind::id> {                         \
    static constexpr OpKind op = OpKind::id;           \
    static constexpr unsigned domain = types;          \
    static constexpr int arity = count;                \
    template <class V>                                 \
    auto operator() arguments const {                  \
      (void)p;                                         \
      __VA_ARGS__                                      \
    }                                                  \
  };
#define RLXC_UNARY(id, types, ...) RLXC_MEANING(id, 1, (const Params& p, V x), types, return __VA_ARGS__;)
#define RLXC_BINARY(id, types, ...) RLXC_MEANING(id, 2, (const Params& p, V a, V b), types, return __VA_ARGS__;)

RLXC_UNARY(Gelu, kFloats, 0.5 * x * (1.0 + erf(x * 0.70710678118654752440)))
RLXC_UNARY(GeluApprox, kFloats, 0.5 * x * (1.0 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x))))
RLXC_UNARY(Silu, kFloats, x / (1.0 + exp(-x)))
RLXC_UNARY(Relu, kNumbers, max(x, 0))
RLXC_UNARY(Sigmoid, kFloats, 1.0 / (1.0 + exp(-x)))
RLXC_UNARY(Tanh, kFloats | kComplexes, tanh(x))
RLXC_UNARY(Exp, kFloats | kComplexes, exp(x))
RLXC_UNARY(Expm1, kFloats, expm1(x))
RLXC_UNARY(Log, kFloats | kComplexes, log(x))
RLXC_UNARY(Log1p, kFloats, log1p(x))
RLXC_UNARY(Sqrt, kFloats | kComplexes, sqrt(x))
RLXC_UNARY(Rsqrt, kFloats, rsqrt(x))
RLXC_UNARY(Recip, kFloats | kComplexes, 1.0 / x)
RLXC_UNARY(Neg, kFields, -x)
RLXC_UNARY(Abs, kNumbers, abs(x))
RLXC_UNARY(Sign, kNumbers, select(x > 0, 1, select(x < 0, -1, x)))
RLXC_UNARY(Sin, kFloats | kComplexes, sin(x))
RLXC_UNARY(Cos, kFloats | kComplexes, cos(x))
RLXC_UNARY(Tan, kFloats | kComplexes, tan(x))
RLXC_UNARY(Asin, kFloats, asin(x))
RLXC_UNARY(Acos, kFloats, acos(x))
RLXC_UNARY(Atan, kFloats, atan(x))
RLXC_UNARY(Sinh, kFloats, sinh(x))
RLXC_UNARY(Cosh, kFloats, cosh(x))
RLXC_UNARY(Asinh, kFloats, asinh(x))
RLXC_UNARY(Acosh, kFloats, acosh(x))
RLXC_UNARY(Atanh, kFloats, atanh(x))
RLXC_UNARY(Round, kFloats, round_even(x))
RLXC_UNARY(Floor, kFloats, floor(x))
RLXC_UNARY(Ceil, kFloats, ceil(x))
RLXC_UNARY(Erf, kFloats, erf(x))
RLXC_UNARY(Softplus, kFloats, max(x, 0) + log1p(exp(-abs(x))))
RLXC_UNARY(Softsign, kFloats, x / (1.0 + abs(x)))
RLXC_UNARY(Mish, kFloats, x* tanh(max(x, 0) + log1p(exp(-abs(x)))))
RLXC_UNARY(LogSigmoid, kFloats, min(x, 0) - log1p(exp(-abs(x))))
RLXC_UNARY(HardSwish, kFloats, x* min(max(x*(1.0 / 6) + 0.5, 0), 1))
RLXC_UNARY(HardSigmoid, kFloats, min(max(p.alpha* x + p.beta, 0), 1))
RLXC_UNARY(Elu, kFloats, select(x < 0, p.alpha* expm1(x), x))
RLXC_UNARY(Selu, kFloats, p.beta* select(x < 0, p.alpha* expm1(x), x))
RLXC_UNARY(Celu, kFloats, max(x, 0) + min(p.alpha * expm1(x / p.alpha), 0))
RLXC_UNARY(LeakyRelu, kFloats, select(x < 0, p.alpha* x, x))
RLXC_UNARY(ThresholdedRelu, kNumbers, select(x > lit(x, p.alpha), x, 0))
RLXC_UNARY(Shrink, kFloats, select(x < lit(x, -p.alpha), x + lit(x, p.beta), select(x > lit(x, p.alpha), x - lit(x, p.beta), 0)))
RLXC_UNARY(Swish, kFloats, x / (1.0 + exp(-(p.alpha * x))))
RLXC_UNARY(Clamp, kNumbers, min(max(x, lit(x, p.alpha)), lit(x, p.beta)))
RLXC_UNARY(StopGradient, kFields | kBools, x)
RLXC_UNARY(Not, kBools, !x)
RLXC_UNARY(BitNot, kIntegers, ~x)
RLXC_UNARY(IsNan, kFloats, isnan(x))
RLXC_MEANING(IsInf, 1, (const Params& p, V x), kFloats,
             if (p.alpha != 0 && p.beta != 0) return isinf(x);
             if (p.alpha == 0 && p.beta == 0) return isinf(x) && isnan(x);  // neither sign is wanted: always false
             return isinf(x) && (p.beta != 0 ? x > 0 : x < 0);)

RLXC_BINARY(Add, kFields, a + b)
RLXC_BINARY(Sub, kFields, a - b)
RLXC_BINARY(Mul, kFields, a* b)
RLXC_BINARY(MulNoNan, kFloats, select(a == 0, 0, select(b == 0, 0, a* b)))
RLXC_BINARY(Div, kFields, a / b)
RLXC_BINARY(Max, kNumbers, max(a, b))
RLXC_BINARY(Min, kNumbers, min(a, b))
RLXC_BINARY(Pow, kNumbers, pow(a, b))
RLXC_MEANING(Mod, 2, (const Params& p, V a, V b), kNumbers, const auto r = fmod(a, b);
             return select((r != 0) && ((r < 0) ^ (b < 0)), r + b, r);)
RLXC_BINARY(Fmod, kNumbers, fmod(a, b))
RLXC_BINARY(Atan2, kFloats, atan2(a, b))
RLXC_BINARY(BitAnd, kIntegers, a& b)
RLXC_BINARY(BitOr, kIntegers, a | b)
RLXC_BINARY(BitXor, kIntegers, a ^ b)
RLXC_BINARY(Shl, kIntegers, select(b < 0, 0, select(b >= p.width, 0, a << b)))
RLXC_BINARY(Shr, kIntegers, select(b < 0, 0, select(b >= p.width, 0, a >> b)))
RLXC_BINARY(And, kBools, a& b)
RLXC_BINARY(Or, kBools, a | b)
RLXC_BINARY(Xor, kBools, a ^ b)
RLXC_BINARY(PRelu, kNumbers, select(a < 0, b* a, a))
RLXC_BINARY(Eq, kFields | kBools, a == b)
RLXC_BINARY(Ne, kFields | kBools, a != b)
RLXC_BINARY(Lt, kNumbers | kBools, a < b)
RLXC_BINARY(Le, kNumbers | kBools, a <= b)
RLXC_BINARY(Gt, kNumbers | kBools, a > b)
RLXC_BINARY(Ge, kNumbers | kBools, a >= b)
RLXC_MEANING(Fma, 3, (const Params& p, V a, V b, V c), kFloats, return fma(a, b, c);)
#undef RLXC_UNARY
#undef RLXC_BINARY
#undef RLXC_MEANING

// Calls f(Meaning<op>()) and returns true if the op has a definition. Returns false for others, such as Where and Cast, whose
// operands differ in type. `f` is instantiated for every op; guard with `if constexpr` on arity and domain.
template <class F>
bool visit(OpKind op, F&& f) {
  switch (op) {
#define OP(id, text, min_in, max_in, results, attrs, traits, domain, infer, cost, precision, layout, maps, doc) \
  case OpKind::id:                                                                                              \
    if constexpr (Meaning<OpKind::id>::arity > 0) return f(Meaning<OpKind::id>()), true;                        \
    else return false;
#include "ir/ops.def"
#undef OP
  }
  return false;
}

constexpr bool has_meaning(OpKind op) {
  switch (op) {
#define OP(id, text, min_in, max_in, results, attrs, traits, domain, infer, cost, precision, layout, maps, doc) \
  case OpKind::id:                                                                                              \
    return Meaning<OpKind::id>::arity > 0;
#include "ir/ops.def"
#undef OP
  }
  return false;
}

}  // namespace rlxc::ops
