// Rules on elementwise ops.
#include <algorithm>
#include <cmath>
#include <limits>

#include "passes/match.h"
#include "passes/simplify/rules.h"

namespace rlxc::simplify {
namespace {

using enum OpKind;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr int64_t kMostScales = 1 << 16;  // of a quantization

DType dtype(Simplifier& s, NodeId n) { return s.graph().dtype(s.graph().result(n)); }

// x op c with a neutral constant c on either side -> x.
bool neutral(Simplifier& s, NodeId n, double c) {
  for (size_t i = 0; i < 2; ++i)
    if (s.uniform(arg(s, n, 1 - i)) == c && s.replace(n, arg(s, n, i))) return true;
  return false;
}
bool neutral_right(Simplifier& s, NodeId n, double c) { return s.uniform(arg(s, n, 1)) == c && s.replace(n, arg(s, n)); }

bool add_zero(Simplifier& s, NodeId n) { return neutral(s, n, 0); }
bool sub_zero(Simplifier& s, NodeId n) { return neutral_right(s, n, 0); }
bool mul_one(Simplifier& s, NodeId n) { return neutral(s, n, 1); }
bool div_one(Simplifier& s, NodeId n) { return neutral_right(s, n, 1); }
bool pow_one(Simplifier& s, NodeId n) { return neutral_right(s, n, 1); }
bool max_low(Simplifier& s, NodeId n) { return is_float(dtype(s, n)) && neutral(s, n, -kInf); }
bool min_high(Simplifier& s, NodeId n) { return is_float(dtype(s, n)) && neutral(s, n, kInf); }
bool and_true(Simplifier& s, NodeId n) { return neutral(s, n, 1); }
bool or_false(Simplifier& s, NodeId n) { return neutral(s, n, 0); }

bool zero_minus(Simplifier& s, NodeId n) {
  return s.uniform(arg(s, n)) == 0.0 && is_signed(dtype(s, n)) && s.replace(n, s.at(n).unary(Neg, arg(s, n, 1)));
}
bool mul_minus_one(Simplifier& s, NodeId n) {
  if (!is_signed(dtype(s, n))) return false;
  for (size_t i = 0; i < 2; ++i)
    if (s.uniform(arg(s, n, 1 - i)) == -1.0 && s.replace(n, s.at(n).unary(Neg, arg(s, n, i)))) return true;
  return false;
}

// x*0 -> 0 for integers. For floats only with fast math, since NaN*0 and inf*0 are not 0.
bool mul_zero(Simplifier& s, NodeId n) {
  if (!is_integer(dtype(s, n)) && !s.fast_math()) return false;
  return (s.uniform(arg(s, n)) == 0.0 || s.uniform(arg(s, n, 1)) == 0.0) && s.replace(n, s.filled(n, s.graph().result(n), 0));
}
// A product with a number that is not 0 is Mul; one with 0 is 0.
bool mul_no_nan_number(Simplifier& s, NodeId n) {
  for (size_t i = 0; i < 2; ++i) {
    const auto c = s.uniform(arg(s, n, i));
    if (!c || !std::isfinite(*c)) continue;
    return s.replace(n, *c == 0 ? s.filled(n, s.graph().result(n), 0) : s.at(n).mul(arg(s, n), arg(s, n, 1)));
  }
  return false;
}
bool sub_self(Simplifier& s, NodeId n) {
  if (!is_integer(dtype(s, n)) && !s.fast_math()) return false;
  return arg(s, n) == arg(s, n, 1) && s.replace(n, s.filled(n, s.graph().result(n), 0));
}
bool same_operands(Simplifier& s, NodeId n) { return arg(s, n) == arg(s, n, 1) && s.replace(n, arg(s, n)); }

bool compare_self(Simplifier& s, NodeId n) {
  const ValueId x = arg(s, n);
  if (x != arg(s, n, 1) || is_float(s.graph().dtype(x)) || is_complex(s.graph().dtype(x))) return false;
  const OpKind op = s.graph().op(n);
  return s.replace(n, s.filled(n, s.graph().result(n), op == Eq || op == Le || op == Ge));
}

// The first element of a Range of i64 that counts up by ones, behind layout ops.
std::optional<double> first_of_range(Simplifier& s, ValueId v) {
  constexpr size_t kMostMoves = 4;
  const Graph& g = s.graph();
  for (size_t i = 0; i <= kMostMoves; ++i) {
    const NodeId n = g.def(v);
    if (!n.valid()) return std::nullopt;
    if (g.op(n) == Range) {
      const bool ones = g.dtype(v) == DType::I64 && s.uniform(arg(s, n, 1)) == 1.0;
      return ones ? s.uniform(arg(s, n)) : std::nullopt;
    }
    if (g.op(n) != Reshape && g.op(n) != Transpose && g.op(n) != Expand && g.op(n) != Narrow) return std::nullopt;
    v = arg(s, n);
  }
  return std::nullopt;
}

// range(a, 1) >= c with c <= a, and the like.
bool compare_range(Simplifier& s, NodeId n) {
  for (size_t i = 0; i < 2; ++i) {
    const auto c = s.uniform(arg(s, n, 1 - i)), first = c ? first_of_range(s, arg(s, n, i)) : std::nullopt;
    if (!first) continue;
    const OpKind op = s.graph().op(n);
    const bool below = op == (i == 0 ? Lt : Gt), from = op == (i == 0 ? Ge : Le);   // range < c, range >= c
    const bool up_to = op == (i == 0 ? Le : Ge), above = op == (i == 0 ? Gt : Lt);  // range <= c, range > c
    if (((below || from) && *c <= *first) || ((up_to || above) && *c < *first))
      return s.replace(n, s.filled(n, s.graph().result(n), from || above));
  }
  return false;
}

// Division by a power of two is exactly a multiplication; by another constant approximately.
bool div_constant(Simplifier& s, NodeId n, bool exact) {
  const auto c = s.uniform(arg(s, n, 1));
  const DType t = dtype(s, n);
  if (!c || *c == 0 || !std::isfinite(*c) || (t != DType::F32 && t != DType::F64)) return false;
  int exponent = 0;
  if (exact && std::fabs(std::frexp(*c, &exponent)) != 0.5) return false;
  const double r = 1 / *c, low = t == DType::F32 ? std::numeric_limits<float>::min() : std::numeric_limits<double>::min();
  const double high = t == DType::F32 ? std::numeric_limits<float>::max() : std::numeric_limits<double>::max();
  if (std::fabs(r) < low || std::fabs(r) > high) return false;
  return s.replace(n, s.at(n).mul(arg(s, n), s.filled(n, arg(s, n, 1), r)));
}
bool div_power_of_two(Simplifier& s, NodeId n) { return div_constant(s, n, true); }
bool div_to_mul(Simplifier& s, NodeId n) { return div_constant(s, n, false); }

bool pow_two(Simplifier& s, NodeId n) {
  return s.uniform(arg(s, n, 1)) == 2.0 && s.replace(n, s.at(n).mul(arg(s, n), arg(s, n)));
}
bool pow_three(Simplifier& s, NodeId n) {
  return s.uniform(arg(s, n, 1)) == 3.0 && s.replace(n, s.at(n).mul(s.at(n).mul(arg(s, n), arg(s, n)), arg(s, n)));
}
bool pow_zero(Simplifier& s, NodeId n) {
  return s.uniform(arg(s, n, 1)) == 0.0 && s.replace(n, s.filled(n, s.graph().result(n), 1));
}
bool pow_minus_one(Simplifier& s, NodeId n) {
  return s.uniform(arg(s, n, 1)) == -1.0 && is_float(dtype(s, n)) && s.replace(n, s.at(n).unary(Recip, arg(s, n)));
}
bool pow_root(Simplifier& s, NodeId n) {
  const auto c = s.uniform(arg(s, n, 1));
  if (!is_float(dtype(s, n)) || !c || (*c != 0.5 && *c != -0.5)) return false;
  return s.replace(n, s.at(n).unary(*c > 0 ? Sqrt : Rsqrt, arg(s, n)));
}

// (x op c1) op c2 -> x op (c1 op c2) for + and *. Exact for small integers; floats are re-associated.
bool constant_chain(Simplifier& s, NodeId n) {
  Graph& g = s.graph();
  const DType t = dtype(s, n);
  if (!is_float(t) && !is_integer(t)) return false;
  if (is_float(t) && !s.fast_math()) return false;
  for (size_t i = 0; i < 2; ++i) {
    const auto c2 = s.uniform(arg(s, n, 1 - i));
    const NodeId inner = s.def(arg(s, n, i), g.op(n));
    if (!c2 || !inner.valid() || !g.has_one_use(g.result(inner))) continue;
    for (size_t k = 0; k < 2; ++k) {
      const auto c1 = s.uniform(arg(s, inner, 1 - k));
      if (!c1) continue;
      const double c = g.op(n) == Add ? *c1 + *c2 : *c1 * *c2;
      if (!std::isfinite(c)) continue;
      if (is_integer(t) &&
          (std::fabs(*c1) > 1e6 || std::fabs(*c2) > 1e6 || (bits(t) < 64 && std::fabs(c) >= std::ldexp(1, bits(t) - 1))))
        continue;
      if (is_integer(t) && c < 0 && !is_signed(t)) continue;
      const ValueId folded =
          s.filled(n, g.rank(arg(s, n, 1 - i)) > g.rank(arg(s, inner, 1 - k)) ? arg(s, n, 1 - i) : arg(s, inner, 1 - k), c);
      if (s.replace(n, s.at(n).create(g.op(n), {arg(s, inner, k), folded}))) return true;
    }
  }
  return false;
}

// f(f(x)) = x
bool involution(Simplifier& s, NodeId n) {
  const NodeId inner = s.def(arg(s, n), s.graph().op(n));
  return inner.valid() && s.replace(n, arg(s, inner));
}
// f(f(x)) = f(x)
bool idempotent(Simplifier& s, NodeId n) {
  const NodeId inner = s.def(arg(s, n), s.graph().op(n));
  return inner.valid() && s.replace(n, s.graph().result(inner));
}
bool abs_neg(Simplifier& s, NodeId n) {
  const NodeId inner = s.def(arg(s, n), Neg);
  return inner.valid() && s.set_operand(n, 0, arg(s, inner));
}
bool add_neg(Simplifier& s, NodeId n) {
  for (size_t i = 0; i < 2; ++i)
    if (const NodeId neg = s.def(arg(s, n, i), Neg); neg.valid())
      if (s.replace(n, s.at(n).sub(arg(s, n, 1 - i), arg(s, neg)))) return true;
  return false;
}
bool sub_neg(Simplifier& s, NodeId n) {
  const NodeId neg = s.def(arg(s, n, 1), Neg);
  return neg.valid() && s.replace(n, s.at(n).add(arg(s, n), arg(s, neg)));
}
bool inverse_pair(Simplifier& s, NodeId n) {
  const OpKind other = s.graph().op(n) == Exp ? Log : s.graph().op(n) == Log ? Exp : Recip;
  const NodeId inner = s.def(arg(s, n), other);
  return inner.valid() && s.replace(n, arg(s, inner));
}
bool recip_sqrt(Simplifier& s, NodeId n) {
  const NodeId inner = s.def(arg(s, n), Sqrt);
  return inner.valid() && s.replace(n, s.at(n).unary(Rsqrt, arg(s, inner)));
}
bool div_of_one(Simplifier& s, NodeId n) {
  return s.uniform(arg(s, n)) == 1.0 && is_float(dtype(s, n)) && s.replace(n, s.at(n).unary(Recip, arg(s, n, 1)));
}

bool clamp_open(Simplifier& s, NodeId n) {
  const auto& a = s.graph().attrs<ClampAttrs>(n);
  return a.min == -kInf && a.max == kInf && s.replace(n, arg(s, n));
}
bool clamp_clamp(Simplifier& s, NodeId n) {
  const NodeId inner = s.def(arg(s, n), Clamp);
  if (!inner.valid()) return false;
  const auto &a = s.graph().attrs<ClampAttrs>(inner), &b = s.graph().attrs<ClampAttrs>(n);
  const double low = std::min(std::max(a.min, b.min), b.max), high = std::min(std::max(a.max, b.min), b.max);
  if (a.min > a.max || b.min > b.max) return false;
  return s.replace(n, s.at(n).create(Clamp, {arg(s, inner)}, ClampAttrs{low, high}));
}

bool where_constant(Simplifier& s, NodeId n) {
  const auto c = s.uniform(arg(s, n));
  if (!c) return false;
  const ValueId chosen = arg(s, n, *c != 0 ? 1 : 2);
  const std::vector<Dim> sizes(s.graph().dims(s.graph().result(n)).begin(), s.graph().dims(s.graph().result(n)).end());
  return s.replace(n, chosen) || s.replace(n, s.at(n).expand(chosen, sizes));
}
bool where_same(Simplifier& s, NodeId n) { return arg(s, n, 1) == arg(s, n, 2) && s.replace(n, arg(s, n, 1)); }
bool where_not(Simplifier& s, NodeId n) {
  const NodeId inner = s.def(arg(s, n), Not);
  return inner.valid() && s.replace(n, s.at(n).create(Where, {arg(s, inner), arg(s, n, 2), arg(s, n, 1)}));
}

bool cast_same(Simplifier& s, NodeId n) { return s.graph().dtype(arg(s, n)) == dtype(s, n) && s.replace(n, arg(s, n)); }

// Returns whether every value of `from` is a value of `to`.
bool widens(DType from, DType to) {
  if (from == to || from == DType::Bool) return true;
  auto mantissa = [](DType t) {
    return t == DType::F64 ? 53 : t == DType::F32 ? 24 : t == DType::F16 ? 11 : t == DType::BF16 ? 8 : 0;
  };
  if (is_float(to)) {
    if (is_float(from)) return mantissa(from) > 0 && (to == DType::F64 || (to == DType::F32 && from != DType::F64));
    return is_integer(from) && bits(from) <= (to == DType::F16 ? 11 : mantissa(to));
  }
  if (!is_integer(from) || !is_integer(to)) return false;
  if (dtype_class(from) == dtype_class(to)) return bits(from) <= bits(to);
  return dtype_class(from) == DTypeClass::UInt && bits(from) < bits(to);
}
bool cast_cast(Simplifier& s, NodeId n) {
  const NodeId inner = s.def(arg(s, n), Cast);
  if (!inner.valid() || !widens(s.graph().dtype(arg(s, inner)), dtype(s, inner))) return false;
  if (s.graph().dtype(arg(s, inner)) == dtype(s, n)) return s.replace(n, arg(s, inner));
  return s.replace(n, s.at(n).create(Cast, {arg(s, inner)}, s.graph().attrs<CastAttrs>(n)));
}

// Removes an Expand, or a Reshape that adds leading 1s, of an operand if the op broadcasts it anyway.
bool bare_operand(Simplifier& s, NodeId n) {
  Graph& g = s.graph();
  if (g.op(n) == ElementwiseRegion) return false;
  const size_t count = g.operands(n).size();
  for (size_t i = 0; i < count; ++i) {
    const NodeId e = g.def(arg(s, n, i));
    if (g.op(e) != Expand && g.op(e) != Reshape) continue;
    const ValueId bare = g.operand(e, 0);
    if (g.op(e) == Reshape) {
      const auto from = g.dims(bare), to = g.dims(g.result(e));
      if (to.size() <= from.size() || std::ranges::equal(to, g.dims(g.result(n))))
        continue;  // no broadcast: operands of equal shape stay
      const size_t extra = to.size() - from.size();
      if (!std::ranges::all_of(to.first(extra), [](Dim d) { return d == Dim(1); }) ||
          !std::ranges::equal(to.subspan(extra), from))
        continue;
    }
    std::vector<std::span<const Dim>> shapes;
    for (size_t k = 0; k < count; ++k) shapes.push_back(g.dims(k == i ? bare : arg(s, n, k)));
    const auto sizes = broadcast_exact(shapes);
    if (sizes && std::ranges::equal(*sizes, g.dims(g.result(n)))) return s.set_operand(n, i, bare);
  }
  return false;
}

// Computes before an Expand what all elements of an axis share, as masks do: the readers of a mask broadcast it anyway. Declined
// if other readers need the Expand.
bool sink_expand(Simplifier& s, NodeId n) {
  const Graph& g = s.graph();
  std::vector<ValueId> bare;
  std::vector<std::span<const Dim>> shapes;
  bool expanded = false;
  for (ValueId v : g.operands(n)) {
    const NodeId e = s.def(v, Expand);
    const bool elementwise = e.valid() && std::ranges::all_of(g.uses(v), [&](const Graph::Use& use) {
                               return use.user != g.terminator() && has_trait(g.op(use.user), kElementwise);
                             });
    expanded |= elementwise;
    bare.push_back(elementwise ? arg(s, e) : v);
    shapes.push_back(g.dims(bare.back()));
  }
  if (!expanded) return false;
  auto sizes = broadcast_exact(shapes);
  const std::vector<Dim> whole(g.dims(g.result(n)).begin(), g.dims(g.result(n)).end());
  if (!sizes || sizes->size() > whole.size() || *sizes == whole) return false;
  for (size_t i = 0, first = whole.size() - sizes->size(); i < sizes->size(); ++i)
    if ((*sizes)[i] != whole[first + i] && (*sizes)[i] != Dim(1)) return false;
  Builder& b = s.at(n);
  return s.replace(n, b.expand(b.create(g.op(n), bare, g.module().attrs[g.attr_id(n)]), whole));
}

// Zero points of 0 are absent.
bool no_zero_points(Simplifier& s, NodeId n) {
  bool changed = false;
  for (const size_t i : {size_t{2}, size_t{3}})
    if (arg(s, n, i).valid() && match::is_absent_or_zero(s.graph(), arg(s, n, i))) changed |= s.set_operand(n, i, {});
  return changed;
}

// Negative values become 0 when they are rounded to unsigned integers without a zero point.
bool rounded_relu(Simplifier& s, NodeId n) {
  const Graph& g = s.graph();
  const NodeId relu = s.def(arg(s, n), Relu);
  if (!relu.valid() || !g.has_one_use(arg(s, n)) || dtype_class(dtype(s, n)) != DTypeClass::UInt) return false;
  const auto scales = match::elements(g, arg(s, n, 1), kMostScales);
  const bool positive = !scales.empty() && std::ranges::all_of(scales, [](double v) { return v > 0; });
  return positive && match::is_absent_or_zero(g, arg(s, n, 2)) && s.set_operand(n, 0, arg(s, relu));
}

constexpr Rule kArithmeticRules[] = {
    {Add, "add_zero", false, add_zero},
    {Sub, "sub_zero", false, sub_zero},
    {Sub, "zero_minus", false, zero_minus},
    {Mul, "mul_one", false, mul_one},
    {Mul, "mul_minus_one", false, mul_minus_one},
    {Mul, "mul_zero", false, mul_zero},
    {MulNoNan, "mul_no_nan_number", false, mul_no_nan_number},
    {Div, "div_one", false, div_one},
    {Sub, "sub_self", false, sub_self},
    {Add, "add_neg", false, add_neg},
    {Sub, "sub_neg", false, sub_neg},
    {Add, "constant_chain", false, constant_chain},
    {Mul, "constant_chain", false, constant_chain},
    {Div, "div_power_of_two", false, div_power_of_two},
    {Div, "div_of_one", false, div_of_one},
    {Div, "div_to_mul", true, div_to_mul},
    {Pow, "pow_one", false, pow_one},
    {Pow, "pow_two", false, pow_two},
    {Pow, "pow_zero", false, pow_zero},
    {Pow, "pow_minus_one", false, pow_minus_one},
    {Pow, "pow_root", true, pow_root},
    {Pow, "pow_three", true, pow_three},
    {Max, "max_low", false, max_low},
    {Min, "min_high", false, min_high},
    {Max, "same_operands", false, same_operands},
    {Min, "same_operands", false, same_operands},
    {And, "same_operands", false, same_operands},
    {Or, "same_operands", false, same_operands},
    {BitAnd, "same_operands", false, same_operands},
    {BitOr, "same_operands", false, same_operands},
    {And, "and_true", false, and_true},
    {Or, "or_false", false, or_false},
    {Eq, "compare_self", false, compare_self},
    {Ne, "compare_self", false, compare_self},
    {Lt, "compare_self", false, compare_self},
    {Lt, "compare_range", false, compare_range},
    {Le, "compare_self", false, compare_self},
    {Le, "compare_range", false, compare_range},
    {Gt, "compare_self", false, compare_self},
    {Gt, "compare_range", false, compare_range},
    {Ge, "compare_self", false, compare_self},
    {Ge, "compare_range", false, compare_range},
    {Neg, "involution", false, involution},
    {Not, "involution", false, involution},
    {BitNot, "involution", false, involution},
    {Recip, "involution", true, involution},
    {Recip, "recip_sqrt", true, recip_sqrt},
    {Exp, "inverse_pair", true, inverse_pair},
    {Log, "inverse_pair", true, inverse_pair},
    {Abs, "idempotent", false, idempotent},
    {Relu, "idempotent", false, idempotent},
    {Floor, "idempotent", false, idempotent},
    {Ceil, "idempotent", false, idempotent},
    {Round, "idempotent", false, idempotent},
    {Sign, "idempotent", false, idempotent},
    {Abs, "abs_neg", false, abs_neg},
    {Clamp, "clamp_open", false, clamp_open},
    {Clamp, "clamp_clamp", false, clamp_clamp},
    {Where, "where_constant", false, where_constant},
    {Where, "where_same", false, where_same},
    {Where, "where_not", false, where_not},
    {Cast, "cast_same", false, cast_same},
    {Cast, "cast_cast", false, cast_cast},
    {Quantize, "rounded_relu", false, rounded_relu},
    {QMatMul, "no_zero_points", false, no_zero_points},
    {QConv, "no_zero_points", false, no_zero_points},
    {Where, "bare_operand", false, bare_operand},
    {Fma, "bare_operand", false, bare_operand},
    {Where, "sink_expand", false, sink_expand},
    {Cast, "sink_expand", false, sink_expand},
    {Not, "sink_expand", false, sink_expand},
};

}  // namespace

std::span<const Rule> arithmetic_rules() {
  static const std::vector<Rule> rules = [] {
    std::vector<Rule> r(std::begin(kArithmeticRules), std::end(kArithmeticRules));
    for (int k = 0; k < kOpCount; ++k)
      if (const auto op = static_cast<OpKind>(k); has_trait(op, kBinary | kCompare) && op != PRelu) {
        r.push_back({op, "bare_operand", false, bare_operand});
        r.push_back({op, "sink_expand", false, sink_expand});
      }
    return r;
  }();
  return rules;
}

}  // namespace rlxc::simplify
