#include "kernel/expr.h"

#include <bit>
#include <cmath>

#include "kernel/fold.h"
#include "support/saturate.h"

namespace rlxc::kernel {
namespace {

Expr intern(Kernel* k, ExprOp op, Type type, std::array<ExprId, 3> args = {}, int64_t payload = 0) {
  return {k, k->intern({op, type, args, payload})};
}

Type result_type(ExprOp op, Type operand) {
  TypeRule rule = type_rule(op);
  return rule == TypeRule::Order || rule == TypeRule::Test ? Type(DType::Bool, operand.lanes) : operand;
}

bool is_int_const(Expr e, int64_t* value) {
  if (e.node().op == ExprOp::Broadcast) return is_int_const({e.kernel, e.node().args[0]}, value);
  return e.kernel->constant_int(e.id, value);
}

// Folds integer operations whose result is an operand or a constant. Exact rules only; floats are left alone.
bool fold(ExprOp op, Expr a, Expr b, Expr* out) {
  Type type = a.type();
  if (is_float(type.dtype) || a.dtype() != b.dtype()) return false;
  int64_t x = 0, y = 0;
  bool ax = is_int_const(a, &x), by = is_int_const(b, &y);
  if (ax && by) {
    auto v = fold_int(op, type.dtype, x, y);
    if (!v) return false;
    *out = broadcast(constant_int(a.kernel, result_type(op, type).dtype, *v), type.lanes);
    return true;
  }
  auto is = [&](Expr e) {
    *out = e;
    return true;
  };
  bool one = by && y == 1, zero = by && y == 0;
  if (type.dtype == DType::Bool) {
    if (op == ExprOp::And && by) return is(y ? a : b);
    if (op == ExprOp::And && ax) return is(x ? b : a);
    if (op == ExprOp::Or && by) return is(y ? b : a);
    if (op == ExprOp::Or && ax) return is(x ? a : b);
    return false;
  }
  if (op == ExprOp::Add && ax && x == 0) return is(b);
  if ((op == ExprOp::Add || op == ExprOp::Sub) && zero) return is(a);
  if (op == ExprOp::Mul && (zero || (ax && x == 1))) return is(b);
  if (op == ExprOp::Mul && ax && x == 0) return is(a);
  if ((op == ExprOp::Mul || op == ExprOp::Div) && one) return is(a);
  if (op == ExprOp::Mod && one) return is(broadcast(constant_int(a.kernel, type.dtype, 0), type.lanes));
  const auto truth = [&](bool v) { return is(broadcast(constant_int(a.kernel, DType::Bool, v), type.lanes)); };
  if (a.id == b.id && (op == ExprOp::Lt || op == ExprOp::Ne)) return truth(false);
  if (a.id == b.id && (op == ExprOp::Le || op == ExprOp::Eq)) return truth(true);
  if (dtype_class(type.dtype) == DTypeClass::UInt && op == ExprOp::Lt && zero) return truth(false);
  if (dtype_class(type.dtype) == DTypeClass::UInt && op == ExprOp::Le && ax && x == 0) return truth(true);
  return false;
}

// A float without bounds that a saturating cast to `t` has anyway. Bounds pass NaN on, which the cast takes to 0.
Expr without_bounds(Expr a, DType t) {
  if (!is_float(a.dtype()) || !is_integer(t) || bits(t) > 16) return a;
  const double span = std::ldexp(1.0, bits(t)), low = is_signed(t) ? -span / 2 : 0, high = low + span - 1;
  while (a.node().op == ExprOp::Min || a.node().op == ExprOp::Max) {
    const ExprNode* bound = &a.kernel->expr(a.node().args[1]);
    if (bound->op == ExprOp::Broadcast) bound = &a.kernel->expr(bound->args[0]);
    if (bound->op != ExprOp::Const) return a;
    const double v = const_double(*bound);
    if (!(a.node().op == ExprOp::Min ? v >= high : v <= low)) return a;
    a = {a.kernel, a.node().args[0]};
  }
  return a;
}

}  // namespace

Expr constant(Kernel* k, DType t, double v) {
  if (!is_float(t)) return constant_int(k, t, saturating_cast<int64_t>(v));
  if (t == DType::F32) v = static_cast<float>(v);
  return intern(k, ExprOp::Const, t, {}, std::bit_cast<int64_t>(v));
}

Expr constant_int(Kernel* k, DType t, int64_t v) {
  if (is_float(t)) return constant(k, t, static_cast<double>(v));
  return intern(k, ExprOp::Const, t, {}, wrap_int(t, v));
}

Expr make(ExprOp op, Expr a) {
  int64_t x = 0;
  if (!is_float(a.dtype()) && a.kernel->constant_int(a.id, &x))
    if (auto v = fold_int(op, a.dtype(), x, 0)) return constant_int(a.kernel, result_type(op, a.type()).dtype, *v);
  return intern(a.kernel, op, result_type(op, a.type()), {a.id});
}

Expr make(ExprOp op, Expr a, Expr b) {
  int lanes = std::max(a.lanes(), b.lanes());
  a = broadcast(a, lanes);
  b = broadcast(b, lanes);
  Expr folded;
  if (fold(op, a, b, &folded)) return folded;
  if (a.dtype() == DType::Bool && op == ExprOp::Lt) return (!a) & b;  // targets differ in the value of true
  if (a.dtype() == DType::Bool && op == ExprOp::Le) return (!a) | b;
  return intern(a.kernel, op, result_type(op, a.type()), {a.id, b.id});
}

Expr make(ExprOp op, Expr a, Expr b, Expr c) {
  int lanes = std::max({a.lanes(), b.lanes(), c.lanes()});
  if (op != ExprOp::Select || a.lanes() != 1) a = broadcast(a, lanes);
  b = broadcast(b, lanes);
  c = broadcast(c, lanes);
  if (op == ExprOp::Select) {
    int64_t taken = 0;
    if (is_int_const(a, &taken)) return taken ? b : c;
    return intern(a.kernel, op, b.type(), {a.id, b.id, c.id});
  }
  return intern(a.kernel, op, a.type(), {a.id, b.id, c.id});
}

Expr cast_to(Expr a, DType t) {
  if (a.dtype() == t) return a;
  a = without_bounds(a, t);
  int64_t x = 0;
  if (a.kernel->constant_int(a.id, &x)) {
    if (!is_float(t)) return constant_int(a.kernel, t, x);
    return constant(a.kernel, t, const_double(a.node()));
  }
  return intern(a.kernel, ExprOp::Cast, {t, a.lanes()}, {a.id});
}

Expr bitcast_to(Expr a, DType t) {
  if (a.dtype() == t) return a;
  // Some languages reject a constant whose bits are an infinity or NaN.
  if (int64_t bits = 0; t == DType::F32 && rlxc::bits(a.dtype()) == 32 && a.kernel->constant_int(a.id, &bits))
    return constant(a.kernel, t, std::bit_cast<float>(static_cast<uint32_t>(bits)));
  return intern(a.kernel, ExprOp::Bitcast, {t, a.lanes()}, {a.id});
}

Expr bitcast_to(Expr a, Type t) {
  return t.lanes == a.lanes() ? bitcast_to(a, t.dtype) : intern(a.kernel, ExprOp::Bitcast, t, {a.id});
}

Expr dot_instructions(Kernel* k, int vector_bytes) { return intern(k, ExprOp::DotInstructions, DType::I32, {}, vector_bytes); }
Expr dot(Expr a, Expr b, Expr c) { return intern(a.kernel, ExprOp::Dot, c.type(), {a.id, b.id, c.id}); }

Expr broadcast(Expr a, int lanes) {
  return a.lanes() == lanes ? a : intern(a.kernel, ExprOp::Broadcast, a.type().with_lanes(lanes), {a.id});
}

Expr ramp(Expr base, int64_t stride, int lanes) {
  if (lanes == 1) return base;
  return intern(base.kernel, ExprOp::Ramp, base.type().with_lanes(lanes), {base.id}, stride);
}

Expr lane(Expr v, int n) { return v.lanes() == 1 ? v : intern(v.kernel, ExprOp::Lane, v.type().scalar(), {v.id}, n); }

Expr interleave_low(Expr a, Expr b, int n) { return intern(a.kernel, ExprOp::InterleaveLow, a.type(), {a.id, b.id}, n); }
Expr interleave_high(Expr a, Expr b, int n) { return intern(a.kernel, ExprOp::InterleaveHigh, a.type(), {a.id, b.id}, n); }
Expr even_lanes(Expr a, Expr b, int n) { return intern(a.kernel, ExprOp::EvenLanes, a.type(), {a.id, b.id}, n); }
Expr odd_lanes(Expr a, Expr b, int n) { return intern(a.kernel, ExprOp::OddLanes, a.type(), {a.id, b.id}, n); }

namespace {
Expr reduce(ExprOp op, Expr v) { return v.lanes() == 1 ? v : intern(v.kernel, op, v.type().scalar(), {v.id}); }
}  // namespace
Expr reduce_add(Expr v) { return reduce(ExprOp::ReduceAdd, v); }
Expr reduce_max(Expr v) { return reduce(ExprOp::ReduceMax, v); }
Expr reduce_min(Expr v) { return reduce(ExprOp::ReduceMin, v); }
Expr reduce_mul(Expr v) { return reduce(ExprOp::ReduceMul, v); }

}  // namespace rlxc::kernel
