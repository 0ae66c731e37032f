// Expressions as values. An Expr is a handle into the pool of one kernel, with the operators and math functions of C++: a generic
// lambda like `[](auto x) { return max(x, lit(x, 0)); }` works on double (kernel/scalar.h) and on Expr. Scalars broadcast to
// vectors. Numbers take the type of the other operand. Operands of different element types are a caller's bug that the verifier
// reports.
#pragma once
#include <type_traits>

#include "kernel/language.h"

namespace rlxc::kernel {

struct Expr {
  Kernel* kernel = nullptr;
  ExprId id;

  const ExprNode& node() const { return kernel->expr(id); }
  Type type() const { return node().type; }
  DType dtype() const { return node().type.dtype; }
  int lanes() const { return node().type.lanes; }
};

template <class T>
concept Number = std::is_arithmetic_v<T>;

// Constants. `lit` has the element type of x and one lane. Integers stay exact.
Expr constant(Kernel*, DType, double);
Expr constant_int(Kernel*, DType, int64_t);
template <Number T>
Expr lit(Expr x, T value) {
  if constexpr (std::is_integral_v<T>) return constant_int(x.kernel, x.dtype(), static_cast<int64_t>(value));
  else return constant(x.kernel, x.dtype(), value);
}

// Makes a node. Folds integer and bool constants, x+0 and x*1 on integers, and broadcasts scalar operands.
Expr make(ExprOp, Expr a);
Expr make(ExprOp, Expr a, Expr b);
Expr make(ExprOp, Expr a, Expr b, Expr c);

#define RLXC_BINARY(symbol, op)                                                  \
  inline Expr operator symbol(Expr a, Expr b) { return make(ExprOp::op, a, b); } \
  template <Number T>                                                            \
  Expr operator symbol(Expr a, T b) {                                            \
    return make(ExprOp::op, a, lit(a, b));                                       \
  }                                                                              \
  template <Number T>                                                            \
  Expr operator symbol(T a, Expr b) {                                            \
    return make(ExprOp::op, lit(b, a), b);                                       \
  }
RLXC_BINARY(+, Add)
RLXC_BINARY(-, Sub)
RLXC_BINARY(*, Mul)
RLXC_BINARY(/, Div)
RLXC_BINARY(%, Mod)
RLXC_BINARY(<, Lt)
RLXC_BINARY(<=, Le)
RLXC_BINARY(==, Eq)
RLXC_BINARY(!=, Ne)
RLXC_BINARY(&, And)
RLXC_BINARY(|, Or)
RLXC_BINARY(^, Xor)
RLXC_BINARY(<<, Shl)
RLXC_BINARY(>>, Shr)
#undef RLXC_BINARY
inline Expr operator>(Expr a, Expr b) { return b < a; }
inline Expr operator>=(Expr a, Expr b) { return b <= a; }
template <Number T>
Expr operator>(Expr a, T b) {
  return lit(a, b) < a;
}
template <Number T>
Expr operator>=(Expr a, T b) {
  return lit(a, b) <= a;
}
template <Number T>
Expr operator>(T a, Expr b) {
  return b < lit(b, a);
}
template <Number T>
Expr operator>=(T a, Expr b) {
  return b <= lit(b, a);
}
inline Expr operator&&(Expr a, Expr b) { return a & b; }  // both sides are evaluated
inline Expr operator||(Expr a, Expr b) { return a | b; }
inline Expr operator!(Expr a) { return make(ExprOp::Not, a); }
inline Expr operator~(Expr a) { return make(ExprOp::BitNot, a); }
inline Expr operator-(Expr a) { return make(ExprOp::Neg, a); }

#define FUNCTION(id, name, value) \
  inline Expr name(Expr a) { return make(ExprOp::id, a); }
#include "kernel/functions.def"
#undef FUNCTION
inline Expr abs(Expr a) { return make(ExprOp::Abs, a); }
inline Expr isnan(Expr a) { return make(ExprOp::IsNan, a); }
inline Expr isinf(Expr a) { return make(ExprOp::IsInf, a); }

#define RLXC_BINARY(function, op)                                         \
  inline Expr function(Expr a, Expr b) { return make(ExprOp::op, a, b); } \
  template <Number T>                                                     \
  Expr function(Expr a, T b) {                                            \
    return make(ExprOp::op, a, lit(a, b));                                \
  }                                                                       \
  template <Number T>                                                     \
  Expr function(T a, Expr b) {                                            \
    return make(ExprOp::op, lit(b, a), b);                                \
  }
RLXC_BINARY(min, Min)
RLXC_BINARY(max, Max)
RLXC_BINARY(pow, Pow)
RLXC_BINARY(atan2, Atan2)
RLXC_BINARY(fmod, Mod)
#undef RLXC_BINARY
inline Expr fma(Expr a, Expr b, Expr c) { return make(ExprOp::Fma, a, b, c); }
inline Expr product(Expr a, Expr b) { return make(ExprOp::Product, a, b); }
// a / b by parts of b, which are computed once for all lanes if b is broadcast.
inline Expr quotient(Expr a, Expr b) {
  if (b.node().op == ExprOp::Broadcast) b = {b.kernel, b.node().args[0]};
  return make(ExprOp::Quotient, a, make(ExprOp::Divisor, b), make(ExprOp::DivisorRest, b));
}

inline Expr select(Expr condition, Expr a, Expr b) { return make(ExprOp::Select, condition, a, b); }
template <Number T>
Expr select(Expr c, Expr a, T b) {
  return select(c, a, lit(a, b));
}
template <Number T>
Expr select(Expr c, T a, Expr b) {
  return select(c, lit(b, a), b);
}

Expr cast_to(Expr, DType);
Expr bitcast_to(Expr, DType);
Expr bitcast_to(Expr, Type);  // total bits must match: i32 as four u8
Expr dot(Expr a, Expr b, Expr c);
Expr dot_instructions(Kernel*, int vector_bytes);
Expr broadcast(Expr scalar, int lanes);           // `scalar` itself if it has `lanes` lanes already
Expr ramp(Expr base, int64_t stride, int lanes);  // base, base + stride, ...
Expr lane(Expr vector, int n);
// a0, b0, a1, b1, ... of the first half of the lanes, or of each `group` lanes; and of the second half.
Expr interleave_low(Expr a, Expr b, int group = 0);
Expr interleave_high(Expr a, Expr b, int group = 0);
// a0, a2, ..., b0, b2, ... of lanes or of units of `unit` lanes; and those between them.
Expr even_lanes(Expr a, Expr b, int unit = 0);
Expr odd_lanes(Expr a, Expr b, int unit = 0);
Expr reduce_add(Expr vector);
Expr reduce_max(Expr vector);
Expr reduce_min(Expr vector);
Expr reduce_mul(Expr vector);

// a / b rounded up, for a >= 0 and b > 0.
inline Expr ceil_div(Expr a, Expr b) { return (a + b - 1) / b; }
template <Number T>
Expr ceil_div(Expr a, T b) {
  return (a + (b - 1)) / b;
}
constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace rlxc::kernel
