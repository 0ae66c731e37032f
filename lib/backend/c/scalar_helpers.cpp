#include "backend/c/scalar_helpers.h"

#include <cmath>
#include <cstring>

#include "kernel/fold.h"

namespace rlxc::target {
namespace {

// $T type, $U unsigned type for shifts, $W type for products, $B bits - 1, $sqrt square root.
struct HelperRow {
  ExprOp op;
  const char* text;
};
constexpr HelperRow kAny[] = {
    {ExprOp::Add, "($T a, $T b) { return ($T)(a + b); }"},
    {ExprOp::Sub, "($T a, $T b) { return ($T)(a - b); }"},
    {ExprOp::Mul, "($T a, $T b) { return ($T)(($W)a * ($W)b); }"},
    {ExprOp::Neg, "($T a) { return ($T)(0 - a); }"},
    {ExprOp::Lt, "($T a, $T b) { return a < b; }"},
    {ExprOp::Le, "($T a, $T b) { return a <= b; }"},
    {ExprOp::Eq, "($T a, $T b) { return a == b; }"},
    {ExprOp::Ne, "($T a, $T b) { return a != b; }"},
    {ExprOp::Not, "($T a) { return !a; }"},
};
constexpr HelperRow kInt[] = {
    {ExprOp::Min, "($T a, $T b) { return a < b ? a : b; }"},
    {ExprOp::Max, "($T a, $T b) { return a > b ? a : b; }"},
    {ExprOp::Abs, "($T a) { return a < 1 ? ($T)(0 - a) : a; }"},
    {ExprOp::And, "($T a, $T b) { return ($T)(a & b); }"},
    {ExprOp::Or, "($T a, $T b) { return ($T)(a | b); }"},
    {ExprOp::Xor, "($T a, $T b) { return ($T)(a ^ b); }"},
    {ExprOp::BitNot, "($T a) { return ($T)~a; }"},
    {ExprOp::Shl, "($T a, $T b) { return ($T)(($U)a << (b & $B)); }"},
    {ExprOp::Shr, "($T a, $T b) { return ($T)(a >> (b & $B)); }"},
};
constexpr HelperRow kSigned[] = {
    {ExprOp::Div, "($T a, $T b) { return b == 0 ? 0 : b == -1 ? ($T)(0 - a) : ($T)(a / b); }"},
    {ExprOp::Mod, "($T a, $T b) { return b == 0 || b == -1 ? 0 : ($T)(a % b); }"},
};
constexpr HelperRow kUnsigned[] = {
    {ExprOp::Abs, "($T a) { return a; }"},
    {ExprOp::Div, "($T a, $T b) { return b == 0 ? 0 : ($T)(a / b); }"},
    {ExprOp::Mod, "($T a, $T b) { return b == 0 ? 0 : ($T)(a % b); }"},
};
constexpr HelperRow kBool[] = {{ExprOp::BitNot, "($T a) { return !a; }"}};
constexpr HelperRow kFloat[] = {
    {ExprOp::Min, "($T a, $T b) { return a < b || a != a ? a : b; }"},
    {ExprOp::Max, "($T a, $T b) { return a > b || a != a ? a : b; }"},
    {ExprOp::Rsqrt, "($T a) { return 1 / $sqrt(a); }"},
    {ExprOp::IsNan, "($T a) { return a != a; }"},
    {ExprOp::IsInf, "($T a) { return isinf(a) != 0; }"},
};

template <size_t N>
const char* find(const HelperRow (&rows)[N], ExprOp op) {
  for (const HelperRow& r : rows)
    if (r.op == op) return r.text;
  return nullptr;
}

}  // namespace

Type result_type(ExprOp op, Type t) {
  auto rule = kernel::type_rule(op);
  return rule == kernel::TypeRule::Order || rule == kernel::TypeRule::Test ? Type(DType::Bool, t.lanes) : t;
}

const char* scalar_definition(ExprOp op, DType t) {
  const char* text = nullptr;
  if (t == DType::Bool) text = find(kBool, op);
  if (!text && is_float(t)) text = find(kFloat, op);
  if (!text && !is_float(t)) text = dtype_class(t) == DTypeClass::Int ? find(kSigned, op) : find(kUnsigned, op);
  if (!text && !is_float(t)) text = find(kInt, op);
  return text ? text : find(kAny, op);
}

std::string add_scalar_function(const CLike& target, std::string_view qualifiers, ExprOp op, DType t, Helpers& h) {
  std::string name = "rlxc_" + std::string(kernel::name(op)) + "_" + suffix(t);
  if (!h.needs(name)) return name;
  int bits = rlxc::bits(t);
  std::string type = target.type(t, h), wide = target.type(DType::U32, h);
  std::string unsigned_type = bits == 64 ? target.type(DType::U64, h) : wide;
  std::string definition = expand(scalar_definition(op, t), {{"T", type},
                                                             {"U", unsigned_type},
                                                             {"B", std::to_string(bits - 1)},
                                                             {"W", is_float(t) || bits >= 32 ? type : wide},
                                                             {"sqrt", is_float(t) ? target.function(ExprOp::Sqrt, t, h) : ""}});
  h.add(std::string(qualifiers) + target.type(result_type(op, t), h) + " " + name + definition + "\n");
  return name;
}

CastBounds cast_bounds(const CLike& target, DType to, DType from) {
  const bool is_unsigned = dtype_class(to) == DTypeClass::UInt;
  const int bits = rlxc::bits(to) - (is_unsigned ? 0 : 1);
  // Both bounds are powers of two (or 0), which floats represent exactly.
  const auto number = [&](double v) {
    ExprNode e{ExprOp::Const, from, {}, 0};
    std::memcpy(&e.payload, &v, sizeof v);
    return target.literal(e);
  };
  const auto integer = [&](int64_t v) { return target.literal({ExprOp::Const, to, {}, v}); };
  const double upper = std::ldexp(1.0, bits);
  const auto top = static_cast<int64_t>((uint64_t{1} << (bits - 1) << 1) - 1);
  return {number(upper), number(is_unsigned ? 0.0 : -upper), integer(top), integer(is_unsigned ? 0 : -top - 1)};
}

std::string add_saturating_cast(const CLike& target, std::string_view qualifiers, DType to, DType from, Helpers& h) {
  std::string name = "rlxc_" + suffix(to) + "_from_" + suffix(from);
  if (!h.needs(name)) return name;
  const CastBounds bounds = cast_bounds(target, to, from);
  h.add(std::string(qualifiers) +
        expand("$R $F($T a) { return a != a ? 0 : a >= $U ? $X : a <= $L ? $N : ($R)a; }\n", {{"R", target.type(to, h)},
                                                                                              {"F", name},
                                                                                              {"T", target.type(from, h)},
                                                                                              {"U", bounds.upper},
                                                                                              {"L", bounds.lower},
                                                                                              {"X", bounds.most},
                                                                                              {"N", bounds.least}}));
  return name;
}

}  // namespace rlxc::target
