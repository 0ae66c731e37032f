// Arithmetic on graph values in operator notation: each operator creates a node. A number takes the element type of the other
// operand. An invalid operand gives an invalid result.
#pragma once
#include <vector>

#include "ir/builder.h"

namespace rlxc::transform {

struct Term {
  Builder* b = nullptr;
  ValueId v;

  bool valid() const { return v.valid(); }
  DType dtype() const { return b->graph().dtype(v); }
  int rank() const { return valid() ? b->graph().rank(v) : 0; }
  std::vector<Dim> dims() const {
    return valid() ? std::vector<Dim>(b->graph().dims(v).begin(), b->graph().dims(v).end()) : std::vector<Dim>();
  }
  Term number(double n) const { return valid() ? Term{b, b->scalar(dtype(), n)} : *this; }
  Term with(ValueId other) const { return {b, other}; }
  Term as(DType t) const { return valid() ? with(b->cast(v, t)) : *this; }
};

inline Term make(OpKind op, std::initializer_list<Term> in, const Attrs& attrs) {
  std::vector<ValueId> operands;
  for (const Term& t : in) {
    if (!t.valid()) return {t.b, {}};
    operands.push_back(t.v);
  }
  Builder* b = in.begin()->b;
  return {b, b->create(op, operands, attrs)};
}
inline Term make(OpKind op, std::initializer_list<Term> in) { return make(op, in, default_attrs(op)); }

#define RLXC_TERM_BINARY(function, op)                                                  \
  inline Term function(Term a, Term b) { return make(OpKind::op, {a, b}); }             \
  inline Term function(Term a, double b) { return make(OpKind::op, {a, a.number(b)}); } \
  inline Term function(double a, Term b) { return make(OpKind::op, {b.number(a), b}); }
RLXC_TERM_BINARY(operator+, Add)
RLXC_TERM_BINARY(operator-, Sub)
RLXC_TERM_BINARY(operator*, Mul)
RLXC_TERM_BINARY(mul_no_nan, MulNoNan)
RLXC_TERM_BINARY(operator/, Div)
RLXC_TERM_BINARY(operator<, Lt)
RLXC_TERM_BINARY(operator<=, Le)
RLXC_TERM_BINARY(operator>, Gt)
RLXC_TERM_BINARY(operator>=, Ge)
RLXC_TERM_BINARY(equal, Eq)
RLXC_TERM_BINARY(pow, Pow)
RLXC_TERM_BINARY(max, Max)
RLXC_TERM_BINARY(min, Min)
#undef RLXC_TERM_BINARY

#define RLXC_TERM_UNARY(function, op) \
  inline Term function(Term x) { return make(OpKind::op, {x}); }
RLXC_TERM_UNARY(operator-, Neg)
RLXC_TERM_UNARY(exp, Exp)
RLXC_TERM_UNARY(log, Log)
RLXC_TERM_UNARY(sqrt, Sqrt)
RLXC_TERM_UNARY(stop_gradient, StopGradient)
RLXC_TERM_UNARY(rsqrt, Rsqrt)
RLXC_TERM_UNARY(recip, Recip)
RLXC_TERM_UNARY(abs, Abs)
RLXC_TERM_UNARY(sign, Sign)
RLXC_TERM_UNARY(sin, Sin)
RLXC_TERM_UNARY(cos, Cos)
RLXC_TERM_UNARY(sinh, Sinh)
RLXC_TERM_UNARY(cosh, Cosh)
RLXC_TERM_UNARY(tanh, Tanh)
RLXC_TERM_UNARY(erf, Erf)
RLXC_TERM_UNARY(sigmoid, Sigmoid)
RLXC_TERM_UNARY(softplus, Softplus)
RLXC_TERM_UNARY(floor, Floor)
#undef RLXC_TERM_UNARY

inline Term square(Term x) { return x * x; }
inline Term both(Term a, Term b) { return make(OpKind::And, {a, b}); }
inline Term select(Term condition, Term a, Term b) { return make(OpKind::Where, {condition, a, b}); }
inline Term select(Term condition, Term a, double b) { return select(condition, a, a.number(b)); }
inline Term select(Term condition, double a, Term b) { return select(condition, b.number(a), b); }

inline Term reduce(ReduceOp op, Term x, std::vector<int64_t> axes, bool keep = true) {
  if (!x.valid() || axes.empty()) return x;
  return {x.b, x.b->reduce(op, x.v, std::move(axes), keep)};
}
inline Term sum(Term x, std::vector<int64_t> axes, bool keep = true) { return reduce(ReduceOp::Sum, x, std::move(axes), keep); }
inline Term mean(Term x, std::vector<int64_t> axes) { return reduce(ReduceOp::Mean, x, std::move(axes)); }
inline Term reshape(Term x, std::vector<Dim> dims) { return x.valid() ? Term{x.b, x.b->reshape(x.v, std::move(dims))} : x; }
inline Term expand(Term x, std::vector<Dim> dims) { return x.valid() ? Term{x.b, x.b->expand(x.v, std::move(dims))} : x; }
inline Term transpose(Term x, std::vector<int64_t> perm) {
  return x.valid() ? Term{x.b, x.b->transpose(x.v, std::move(perm))} : x;
}
inline Term narrow(Term x, int64_t axis, Dim start, Dim len) {
  return x.valid() ? Term{x.b, x.b->narrow(x.v, axis, start, len)} : x;
}
inline Term concat(const std::vector<Term>& parts, int64_t axis) {
  std::vector<ValueId> values;
  for (const Term& t : parts) {
    if (!t.valid()) return t;
    values.push_back(t.v);
  }
  return parts[0].with(parts[0].b->concat(values, axis));
}
inline Term matmul(Term a, Term b, bool trans_a = false, bool trans_b = false) {
  return make(OpKind::MatMul, {a, b}, MatMulAttrs{trans_a, trans_b});
}
inline Term zeros(Builder& b, DType t, std::vector<Dim> dims) { return {&b, b.expand(b.scalar(t, 0), std::move(dims))}; }
// 0, 1, .. n-1 as i64.
inline Term count_up(Builder& b, Dim n) {
  return {&b, b.create(OpKind::Range, {b.scalar(DType::I64, 0), b.scalar(DType::I64, 1)}, DimsAttrs{{n}, false})};
}

}  // namespace rlxc::transform
