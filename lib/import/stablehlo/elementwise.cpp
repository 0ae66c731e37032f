// Elementwise operations. Values of short vectors of integers are followed, because they are sizes and places.
#include <algorithm>
#include <cmath>

#include "import/stablehlo/importer.h"

namespace rlxc::stablehlo_import {
namespace {

bool float_operand(Op& op) {
  return is_float(op.in(0).dtype) || op.fail(Code::BadType, "it takes floats, and gets " + std::string(name(op.in(0).dtype)));
}
bool same_types(Op& op) {
  return op.in(0).dtype == op.in(1).dtype || op.fail(Code::BadType, "its operands are of different types");
}
bool is_bool(const Value& v) { return v.dtype == DType::Bool; }

template <OpKind kind, bool floats>
void unary(Op& op) {
  if (!op.needs(1) || (floats && !float_operand(op))) return;
  if (is_bool(op.in(0))) return (void)op.fail(Code::BadType, "it takes numbers, and gets booleans");
  op.set(0, op.elementwise(kind, {op.in(0)}));
}

// The elements of a result whose operands are known: sizes and constants.
template <class Function>
void follow(const Value& a, const Value& b, Value* out, Function f) {
  if (!a.known || !b.known || !out->valid()) return;
  const size_t n = std::max(a.known->size(), b.known->size());
  Dims all;
  for (size_t i = 0; i < n; ++i) {
    const auto at = [&](const Value& v) { return (*v.known)[v.known->size() == 1 ? 0 : i]; };
    if ((a.known->size() != 1 && a.known->size() != n) || (b.known->size() != 1 && b.known->size() != n)) return;
    const std::optional<Dim> d = f(at(a), at(b));
    if (!d) return;
    all.push_back(*d);
  }
  out->known = std::move(all);
}

std::optional<Dim> follow_integers(DimTable& t, OpKind kind, Dim a, Dim b) {
  const auto x = t.constant_value(a), y = t.constant_value(b);
  const auto beyond = [](const std::optional<int64_t>& v) { return v && (*v > Dim::kMax || *v < -Dim::kMax); };
  const bool far = beyond(x) || beyond(y);
  if (far) return std::nullopt;
  switch (kind) {
    case OpKind::Add: return t.add(a, b);
    case OpKind::Sub: return t.sub(a, b);
    case OpKind::Mul: return t.mul(a, b);
    case OpKind::Max: return t.max(a, b);
    case OpKind::Min: return t.min(a, b);
    case OpKind::Div:  // truncates; both are not negative
      if (!y || *y <= 0 || !t.at_least(a, 0)) return std::nullopt;
      return t.floor_div(a, b);
    case OpKind::Fmod:
      if (!y || *y <= 0 || !t.at_least(a, 0)) return std::nullopt;
      return t.mod(a, b);
    default: return std::nullopt;
  }
}

// Numbers wrap around in their type; those that do not fit are not followed.
bool fits(const DimTable& t, Dim d, DType type) {
  const auto n = t.constant_value(d);
  if (!n || bits(type) >= 64) return true;
  const int64_t half = int64_t{1} << (bits(type) - 1);
  return is_signed(type) ? *n >= -half && *n < half : *n >= 0 && *n < 2 * half;
}

template <OpKind kind, OpKind of_bools>
void binary(Op& op) {
  if (!op.needs(2) || !same_types(op)) return;
  const Value &a = op.in(0), &b = op.in(1);
  if (is_bool(a)) {
    if (of_bools == OpKind::Return) return (void)op.fail(Code::BadType, "it takes numbers, and gets booleans");
    return op.set(0, op.elementwise(of_bools, {a, b}));
  }
  if (kind == OpKind::Max || kind == OpKind::Min)  // a start that changes nothing
    for (const bool first : {false, true}) {
      const Value &start = first ? a : b, &other = first ? b : a;
      const auto v = is_float(a.dtype) ? op.splat(start) : std::nullopt;
      if (v && std::isinf(*v) && (*v < 0) == (kind == OpKind::Max) && start.dims == other.dims) return op.set(0, other);
    }
  Value out = op.elementwise(kind, {a, b});
  if (is_integer(a.dtype)) {
    follow(a, b, &out, [&](Dim x, Dim y) { return follow_integers(op.dims(), kind, x, y); });
    if (out.known && !std::ranges::all_of(*out.known, [&](Dim d) { return fits(op.dims(), d, a.dtype); })) out.known.reset();
    for (const bool first : {false, true})  // adding 0 and multiplying by 1 keep a range
      if (const Value& v = first ? a : b, &other = first ? b : a;
          v.iota && op.constant(other) == (kind == OpKind::Mul ? 1 : 0) && (kind == OpKind::Mul || kind == OpKind::Add))
        out.iota = v.iota;
  }
  op.set(0, std::move(out));
}

template <OpKind kind>
void float_binary(Op& op) {
  if (op.needs(2) && same_types(op) && float_operand(op)) op.set(0, op.elementwise(kind, {op.in(0), op.in(1)}));
}

template <OpKind of_bools, OpKind of_integers>
void bitwise(Op& op) {
  if (!op.needs(2) || !same_types(op)) return;
  if (is_float(op.in(0).dtype)) return (void)op.fail(Code::BadType, "it takes integers and booleans, and gets floats");
  const bool bools = is_bool(op.in(0));
  Value out = op.elementwise(bools ? of_bools : of_integers, {op.in(0), op.in(1)});
  if (bools && of_bools != OpKind::Xor)
    follow(op.in(0), op.in(1), &out, [](Dim x, Dim y) -> std::optional<Dim> {
      if (!x.is_static() || !y.is_static()) return std::nullopt;
      return Dim(of_bools == OpKind::And ? x.size() && y.size() : x.size() || y.size());
    });
  op.set(0, std::move(out));
}
void not_(Op& op) {
  if (!op.needs(1)) return;
  if (is_float(op.in(0).dtype)) return (void)op.fail(Code::BadType, "it takes integers and booleans, and gets floats");
  op.set(0, op.elementwise(is_bool(op.in(0)) ? OpKind::Not : OpKind::BitNot, {op.in(0)}));
}

DType unsigned_of(DType t) {
  switch (bits(t)) {
    case 8: return DType::U8;
    case 16: return DType::U16;
    case 32: return DType::U32;
    default: return DType::U64;
  }
}
DType signed_of(DType t) {
  switch (bits(t)) {
    case 8: return DType::I8;
    case 16: return DType::I16;
    case 32: return DType::I32;
    default: return DType::I64;
  }
}
Value as_bits(Op& op, const Value& v, DType t) {
  if (v.dtype == t) return v;
  const Attrs to = CastAttrs{t};
  return op.elementwise(OpKind::BitCast, {v}, &to);
}

bool shift_operands(Op& op) {
  if (!op.needs(2) || !same_types(op)) return false;
  const DType t = op.in(0).dtype;
  return (is_integer(t) && bits(t) >= 8) ||
         op.fail(Code::BadType, "it takes integers of 8 bits or more, and gets " + std::string(name(t)));
}
void shift_left(Op& op) {
  if (shift_operands(op)) op.set(0, op.elementwise(OpKind::Shl, {op.in(0), op.in(1)}));
}
void shift_right_logical(Op& op) {
  if (!shift_operands(op)) return;
  const DType t = op.in(0).dtype, u = unsigned_of(t);
  op.set(0, as_bits(op, op.elementwise(OpKind::Shr, {as_bits(op, op.in(0), u), as_bits(op, op.in(1), u)}), t));
}
// Distances beyond the width leave the sign.
void shift_right_arithmetic(Op& op) {
  if (!shift_operands(op)) return;
  const DType t = op.in(0).dtype, u = unsigned_of(t), s = signed_of(t);
  const Value most = op.scalar(u, bits(t) - 1), by = op.elementwise(OpKind::Min, {as_bits(op, op.in(1), u), most});
  op.set(0, as_bits(op, op.elementwise(OpKind::Shr, {as_bits(op, op.in(0), s), as_bits(op, by, s)}), t));
}

// The number of bits that are set, of unsigned integers.
Value population(Op& op, Value x) {
  const DType t = x.dtype;
  const auto number = [&](uint64_t v) {
    v &= bits(t) == 64 ? ~uint64_t{0} : (uint64_t{1} << bits(t)) - 1;
    std::vector<std::byte> raw;
    for (int i = 0; i < bits(t) / 8; ++i) raw.push_back(static_cast<std::byte>(v >> (8 * i)));
    return op.made(op.b().constant(make_data(t, {}, raw)));
  };
  const auto masked = [&](const Value& v, uint64_t m) { return op.elementwise(OpKind::BitAnd, {v, number(m)}); };
  const auto right = [&](const Value& v, int n) { return op.elementwise(OpKind::Shr, {v, number(static_cast<uint64_t>(n))}); };
  x = op.sub(x, masked(right(x, 1), 0x5555555555555555));
  x = op.add(masked(x, 0x3333333333333333), masked(right(x, 2), 0x3333333333333333));
  x = masked(op.add(x, right(x, 4)), 0x0F0F0F0F0F0F0F0F);
  for (int n = 8; n < bits(t); n *= 2) x = op.add(x, right(x, n));
  return masked(x, 0x7F);
}
void popcnt(Op& op) {
  if (!op.needs(1)) return;
  const DType t = op.in(0).dtype;
  if (!is_integer(t) || bits(t) < 8) return (void)op.fail(Code::BadType, "it takes integers of 8 bits or more");
  op.set(0, as_bits(op, population(op, as_bits(op, op.in(0), unsigned_of(t))), t));
}
void count_leading_zeros(Op& op) {
  if (!op.needs(1)) return;
  const DType t = op.in(0).dtype;
  if (!is_integer(t) || bits(t) < 8) return (void)op.fail(Code::BadType, "it takes integers of 8 bits or more");
  Value x = as_bits(op, op.in(0), unsigned_of(t));
  for (int n = 1; n < bits(t); n *= 2)
    x = op.elementwise(OpKind::BitOr, {x, op.elementwise(OpKind::Shr, {x, op.scalar_like(x, n)})});
  op.set(0, as_bits(op, op.sub(op.scalar_like(x, bits(t)), population(op, x)), t));
}

void compare(Op& op) {
  if (!op.needs(2) || !same_types(op)) return;
  constexpr std::pair<std::string_view, OpKind> kKinds[] = {{"EQ", OpKind::Eq}, {"NE", OpKind::Ne}, {"LT", OpKind::Lt},
                                                            {"LE", OpKind::Le}, {"GT", OpKind::Gt}, {"GE", OpKind::Ge}};
  for (const auto& [text, kind] : kKinds) {
    if (text != op.text.direction()) continue;
    Value a = op.in(0), b = op.in(1);
    if (op.text.is_total_order() && is_float(a.dtype)) {
      a = ordered_keys(op, a);
      b = ordered_keys(op, b);
    }
    Value out = op.elementwise(kind, {a, b});
    follow(a, b, &out, [&op, kind = kind](Dim x, Dim y) -> std::optional<Dim> {
      DimTable& t = op.dims();
      const auto p = t.constant_value(x), q = t.constant_value(y);
      if (p && q)
        return Dim(kind == OpKind::Eq   ? *p == *q
                   : kind == OpKind::Ne ? *p != *q
                   : kind == OpKind::Lt ? *p < *q
                   : kind == OpKind::Le ? *p <= *q
                   : kind == OpKind::Gt ? *p > *q
                                        : *p >= *q);
      const Dim d = t.sub(x, y), e = t.sub(y, x);
      if (t.at_least(d, 1)) return Dim(kind == OpKind::Ne || kind == OpKind::Gt || kind == OpKind::Ge);
      if (t.at_least(e, 1)) return Dim(kind == OpKind::Ne || kind == OpKind::Lt || kind == OpKind::Le);
      if (kind == OpKind::Ge && t.at_least(d, 0)) return Dim(1);
      if (kind == OpKind::Lt && t.at_least(d, 0)) return Dim(0);
      if (kind == OpKind::Le && t.at_least(e, 0)) return Dim(1);
      if (kind == OpKind::Gt && t.at_least(e, 0)) return Dim(0);
      return std::nullopt;
    });
    if (kind == OpKind::Eq && a.known && b.known && a.known->size() == 1 && b.known->size() == 1)
      out.equal = std::pair((*a.known)[0], (*b.known)[0]);
    return op.set(0, std::move(out));
  }
  op.fail(Code::BadAttribute, "it needs a direction: EQ, NE, LT, LE, GT or GE");
}

void select_(Op& op) {
  if (!op.needs(3)) return;
  if (!is_bool(op.in(0)) || op.in(1).dtype != op.in(2).dtype)
    return (void)op.fail(Code::BadType, "it takes booleans and two values of one type");
  const Value &c = op.in(0), &x = op.in(1), &y = op.in(2);
  // A condition that is known throughout chooses a value.
  if (c.known && std::ranges::all_of(*c.known, [&](Dim d) { return d == (*c.known)[0]; }) && !c.known->empty() &&
      (*c.known)[0].is_static() && x.dims == y.dims)
    return op.set(0, (*c.known)[0] == Dim(1) ? x : y);
  Value out = op.select(c, x, y);
  if (c.known && x.known && y.known && x.dims == y.dims && c.dims == x.dims && x.known->size() == y.known->size() &&
      c.known->size() == x.known->size() && std::ranges::all_of(*c.known, [](Dim d) { return d.is_static(); })) {
    out.known.emplace();
    for (size_t i = 0; i < x.known->size(); ++i) out.known->push_back((*c.known)[i] == Dim(1) ? (*x.known)[i] : (*y.known)[i]);
  }
  op.set(0, std::move(out));
}

void clamp(Op& op) {
  if (!op.needs(3)) return;
  const Value &low = op.in(0), &x = op.in(1), &high = op.in(2);
  if (low.dtype != x.dtype || high.dtype != x.dtype || is_bool(x))
    return (void)op.fail(Code::BadType, "it takes three operands of one numeric type");
  Value out = op.clamp(x, low, high);
  const auto a = op.constant(low), v = op.constant(x), b = op.constant(high);
  if (a && v && b && out.valid()) out.known = Dims{op.dims().constant(std::min(std::max(*v, *a), *b))};
  op.set(0, std::move(out));
}

void convert(Op& op) {
  if (!op.needs(1)) return;
  const DType t = op.declared(0);
  if (!op.text.result_types[0].dtype || is_complex(t)) return (void)op.unsupported("its type is not read");
  op.set(0, op.cast(op.in(0), t));
}

void bitcast_convert(Op& op) {
  if (!op.needs(1)) return;
  const DType from = op.in(0).dtype, to = op.declared(0);
  if (bits(from) != bits(to) || is_bool(op.in(0)) || to == DType::Bool)
    return (void)op.unsupported("it changes the width of elements, from " + std::string(name(from)) + " to " +
                                std::string(name(to)));
  op.set(0, as_bits(op, op.in(0), to));
}

void is_finite_(Op& op) {
  if (op.needs(1) && float_operand(op))
    op.set(0, op.elementwise(OpKind::Lt, {op.elementwise(OpKind::Abs, {op.in(0)}), op.scalar_like(op.in(0), INFINITY)}));
}
void is_inf(Op& op) {
  if (op.needs(1) && float_operand(op))
    op.set(0, op.elementwise(OpKind::Eq, {op.elementwise(OpKind::Abs, {op.in(0)}), op.scalar_like(op.in(0), INFINITY)}));
}
template <bool positive>
void is_signed_inf(Op& op) {
  if (op.needs(1) && float_operand(op))
    op.set(0, op.elementwise(OpKind::Eq, {op.in(0), op.scalar_like(op.in(0), positive ? INFINITY : -INFINITY)}));
}

void round_away(Op& op) {
  if (!op.needs(1) || !float_operand(op)) return;
  const Value& x = op.in(0);
  const Value size = op.elementwise(OpKind::Abs, {x}), low = op.elementwise(OpKind::Floor, {size});
  const Value up = op.elementwise(OpKind::Ge, {op.sub(size, low), op.scalar_like(x, 0.5)});
  const Value rounded = op.add(low, op.cast(up, x.dtype));
  op.set(0, op.select(op.elementwise(OpKind::Lt, {x, op.scalar_like(x, 0)}), op.elementwise(OpKind::Neg, {rounded}), rounded));
}

void cbrt(Op& op) {
  if (!op.needs(1) || !float_operand(op)) return;
  const Value& x = op.in(0);
  const Value root = op.elementwise(OpKind::Pow, {op.elementwise(OpKind::Abs, {x}), op.scalar_like(x, 1.0 / 3)});
  op.set(0, op.mul(op.elementwise(OpKind::Sign, {x}), root));
}

void square(Op& op) {
  if (op.needs(1)) op.set(0, op.mul(op.in(0), op.in(0)));
}

// Rounds to the format of another type; wider formats change nothing.
void reduce_precision(Op& op) {
  if (!op.needs(1) || !float_operand(op)) return;
  int64_t exponent = op.integer("exponent_bits", -1), mantissa = op.integer("mantissa_bits", -1);
  const std::string_view format = op.word("format");
  if (const size_t m = format.find('m'); format.starts_with('e') && m != format.npos) {
    const auto number = [](std::string_view s) {
      int64_t n = 0;
      for (const char c : s.substr(0, 3)) n = c >= '0' && c <= '9' ? n * 10 + (c - '0') : -1000000;
      return s.empty() ? int64_t{-1} : n;
    };
    exponent = number(format.substr(1, m - 1));
    mantissa = number(format.substr(m + 1));
  }
  struct Format {
    DType type;
    int64_t exponent, mantissa;
  };
  constexpr Format kFormats[] = {{DType::BF16, 8, 7}, {DType::F16, 5, 10}, {DType::F32, 8, 23}, {DType::F64, 11, 52}};
  const Value& x = op.in(0);
  for (const Format& own : kFormats)
    if (own.type == x.dtype && exponent >= own.exponent && mantissa >= own.mantissa) return op.set(0, x);
  for (const Format& f : kFormats)
    if (f.exponent == exponent && f.mantissa == mantissa && bits(f.type) < bits(x.dtype))
      return op.set(0, op.cast(op.cast(x, f.type), x.dtype));
  op.unsupported("only the formats of bf16, f16, f32 and f64 are read");
}

void optimization_barrier(Op& op) {
  if (op.outputs() != op.inputs()) return (void)op.fail(Code::BadArity, "it gives as many values as it takes");
  for (size_t i = 0; i < op.inputs(); ++i) op.set(i, op.in(i));
}

void refuse_random(Op& op) {
  op.unsupported("random numbers of the device are not read: give them as an input, or use JAX's threefry keys");
}

constexpr OpRow kElementwiseRows[] = {
    {"acos", unary<OpKind::Acos, true>, true},
    {"acosh", unary<OpKind::Acosh, true>, true},
    {"add", binary<OpKind::Add, OpKind::Or>, true, Complex::EachPart},
    {"and", bitwise<OpKind::And, OpKind::BitAnd>, true},
    {"asin", unary<OpKind::Asin, true>, true},
    {"asinh", unary<OpKind::Asinh, true>, true},
    {"atan", unary<OpKind::Atan, true>, true},
    {"atan2", float_binary<OpKind::Atan2>, true},
    {"atanh", unary<OpKind::Atanh, true>, true},
    {"bitcast_convert", bitcast_convert, true},
    {"cbrt", cbrt, true},
    {"ceil", unary<OpKind::Ceil, true>, true},
    {"clamp", clamp, true},
    {"compare", compare, true},
    {"cosh", unary<OpKind::Cosh, true>, true},
    {"cosine", unary<OpKind::Cos, true>, true},
    {"count_leading_zeros", count_leading_zeros, true},
    {"divide", binary<OpKind::Div, OpKind::Return>, true},
    {"erf", unary<OpKind::Erf, true>, true},
    {"exponential", unary<OpKind::Exp, true>, true},
    {"exponential_minus_one", unary<OpKind::Expm1, true>, true},
    {"floor", unary<OpKind::Floor, true>, true},
    {"is_finite", is_finite_, true},
    {"is_inf", is_inf, true},
    {"is_neg_inf", is_signed_inf<false>, true},
    {"is_pos_inf", is_signed_inf<true>, true},
    {"log", unary<OpKind::Log, true>, true},
    {"log_plus_one", unary<OpKind::Log1p, true>, true},
    {"logistic", unary<OpKind::Sigmoid, true>, true},
    {"maximum", binary<OpKind::Max, OpKind::Or>, true},
    {"minimum", binary<OpKind::Min, OpKind::And>, true},
    {"negate", unary<OpKind::Neg, false>, true, Complex::EachPart},
    {"not", not_, true},
    {"optimization_barrier", optimization_barrier, true, Complex::EachPart},
    {"or", bitwise<OpKind::Or, OpKind::BitOr>, true},
    {"popcnt", popcnt, true},
    {"power", binary<OpKind::Pow, OpKind::Return>, true},
    {"reduce_precision", reduce_precision, true},
    {"remainder", binary<OpKind::Fmod, OpKind::Return>, true},
    {"rng", refuse_random},
    {"rng_bit_generator", refuse_random},
    {"round_nearest_afz", round_away, true},
    {"round_nearest_even", unary<OpKind::Round, true>, true},
    {"rsqrt", unary<OpKind::Rsqrt, true>, true},
    {"select", select_, true},
    {"shift_left", shift_left, true},
    {"shift_right_arithmetic", shift_right_arithmetic, true},
    {"shift_right_logical", shift_right_logical, true},
    {"sign", unary<OpKind::Sign, false>, true},
    {"sine", unary<OpKind::Sin, true>, true},
    {"sinh", unary<OpKind::Sinh, true>, true},
    {"sqrt", unary<OpKind::Sqrt, true>, true},
    {"square", square, true},
    {"subtract", binary<OpKind::Sub, OpKind::Return>, true, Complex::EachPart},
    {"tan", unary<OpKind::Tan, true>, true},
    {"tanh", unary<OpKind::Tanh, true>, true},
    {"xor", bitwise<OpKind::Xor, OpKind::BitXor>, true},
};

}  // namespace

Value ordered_keys(Op& op, const Value& given) {
  const Value v = bits(given.dtype) < 32 ? op.cast(given, DType::F32) : given;
  const DType t = signed_of(v.dtype);
  const Value x = as_bits(op, v, t);
  const Value sign = op.elementwise(OpKind::Shr, {x, op.scalar(t, bits(t) - 1)});
  const Value magnitude =
      op.elementwise(OpKind::BitNot, {op.elementwise(OpKind::Shl, {op.scalar(t, 1), op.scalar(t, bits(t) - 1)})});
  return op.elementwise(OpKind::BitXor, {x, op.elementwise(OpKind::BitAnd, {sign, magnitude})});
}

void real_abs(Op& op) { unary<OpKind::Abs, false>(op); }
void real_convert(Op& op) { convert(op); }
void real_multiply(Op& op) { binary<OpKind::Mul, OpKind::And>(op); }

std::span<const OpRow> elementwise_rows() { return kElementwiseRows; }

}  // namespace rlxc::stablehlo_import
