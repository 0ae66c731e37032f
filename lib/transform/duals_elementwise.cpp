// Tangents of elementwise operations of several operands. Those of one operand follow from their slopes (rules.h).
#include "transform/duals.h"
#include "transform/rules.h"

namespace rlxc::transform {
namespace {

#define DUAL(name, ...)                                                                                       \
  bool name(Dual& d) {                                                                                        \
    [[maybe_unused]] const Term x = d.in(0), y = d.in(1), z = d.out(), dx = d.t(0), dy = d.t(1), dw = d.t(2); \
    return d.give(__VA_ARGS__), true;                                                                         \
  }
// As in reverse: equal operands of max and min follow the first.
Term chosen(Term first, Term a, Term b) {
  return !a.valid() && !b.valid() ? a
         : !a.valid()             ? select(first, 0.0, b)
         : !b.valid()             ? select(first, a, 0.0)
                                  : select(first, a, b);
}
DUAL(add, plus(dx, dy))
DUAL(sub, minus(dx, dy))
DUAL(mul, plus(dx* y, x* dy))
DUAL(mul_no_nan_, plus(product(dx, y), product(dy, x)))
DUAL(div, minus(quotient(dx, y), product(dy, z / y)))
DUAL(max_, chosen(equal(x, z), dx, dy))
DUAL(pow_, plus(dx.valid() ? product(dx, pow_slope(x, y)) : dx, dy.valid() ? product(dy, exponent_slope(x, z)) : dy))
DUAL(mod, minus(dx, dy.valid() ? dy* floor(x / y) : dy))
DUAL(fmod, minus(dx, dy.valid() ? dy* sign(x / y) * floor(abs(x / y)) : dy))
DUAL(atan2, minus(dx.valid() ? product(dx, angle_slope(x, y, y)) : dx, dy.valid() ? product(dy, angle_slope(x, y, x)) : dy))
DUAL(prelu, plus(dx.valid() ? select(x < 0, dx* y, dx) : dx, dy.valid() ? select(x < 0, x* dy, 0.0) : dy))
DUAL(fma, plus(plus(dx* y, x* dy), dw))
DUAL(where, chosen(x, dy, dw))
DUAL(cast, dx)
#undef DUAL

}  // namespace

std::span<const DualEntry> elementwise_duals() {
  static constexpr DualEntry kTable[] = {
      {OpKind::Add, add},     {OpKind::Sub, sub},  {OpKind::Mul, mul},     {OpKind::Div, div},   {OpKind::Max, max_},
      {OpKind::Min, max_},    {OpKind::Pow, pow_}, {OpKind::Mod, mod},     {OpKind::Fmod, fmod}, {OpKind::Atan2, atan2},
      {OpKind::PRelu, prelu}, {OpKind::Fma, fma},  {OpKind::Where, where}, {OpKind::Cast, cast}, {OpKind::MulNoNan, mul_no_nan_},
  };
  return kTable;
}

}  // namespace rlxc::transform
