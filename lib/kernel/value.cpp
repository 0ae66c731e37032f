#include "kernel/value.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "kernel/fold.h"
#include "support/half.h"

namespace rlxc::kernel {
namespace {

uint64_t bits_of(DType t, Value v) {
  switch (t) {
    case DType::F64: return std::bit_cast<uint64_t>(v.f);
    case DType::F32: return std::bit_cast<uint32_t>(static_cast<float>(v.f));
    case DType::F16: return double_to_f16(v.f);
    case DType::BF16: return double_to_bf16(v.f);
    default: return is_float(t) ? encode_float(t, v.f) : static_cast<uint64_t>(v.i);
  }
}

Value from_bits(DType t, uint64_t u) {
  switch (t) {
    case DType::F64: return from_float(std::bit_cast<double>(u));
    case DType::F32: return from_float(std::bit_cast<float>(static_cast<uint32_t>(u)));
    case DType::F16: return from_float(f16_to_float(static_cast<uint16_t>(u)));
    case DType::BF16: return from_float(bf16_to_float(static_cast<uint16_t>(u)));
    default:
      return is_float(t) ? from_float(decode_float(t, static_cast<uint32_t>(u))) : from_int(wrap_int(t, static_cast<int64_t>(u)));
  }
}

double float_op(ExprOp op, DType t, double a, double b, double c) {
  switch (op) {
    case ExprOp::Neg: return -a;
    case ExprOp::Abs: return std::fabs(a);
    case ExprOp::Add: return a + b;
    case ExprOp::Sub: return a - b;
    case ExprOp::Product:
    case ExprOp::Mul: return a * b;
    case ExprOp::Div: return a / b;
    case ExprOp::Quotient: return a / b;
    case ExprOp::Divisor: return a;
    case ExprOp::DivisorRest: return 0;
    case ExprOp::Mod: return std::fmod(a, b);
    case ExprOp::Min: return a < b || a != a ? a : b;
    case ExprOp::Max: return a > b || a != a ? a : b;
    case ExprOp::Fma:
      return t == DType::F32 ? std::fma(static_cast<float>(a), static_cast<float>(b), static_cast<float>(c)) : std::fma(a, b, c);
#define FUNCTION(id, name, value) \
  case ExprOp::id:                \
    return value;
#include "kernel/functions.def"
#undef FUNCTION
    case ExprOp::Pow: return std::pow(a, b);
    case ExprOp::Atan2: return std::atan2(a, b);
    default: return std::nan("");
  }
}

}  // namespace

Value from_float(double d) {
  Value v;
  v.f = d;
  return v;
}

Value from_int(int64_t i) {
  Value v;
  v.i = i;
  return v;
}

double round_to(DType t, double d) {
  switch (t) {
    case DType::F32: return static_cast<float>(d);
    case DType::F16: return f16_to_float(double_to_f16(d));
    case DType::BF16: return bf16_to_float(double_to_bf16(d));
    default: return d;
  }
}

Value apply(ExprOp op, DType t, Value a, Value b, Value c) {
  if (!is_float(t)) return from_int(fold_int(op, t, a.i, b.i).value_or(0));
  switch (op) {
    case ExprOp::Lt: return from_int(a.f < b.f);
    case ExprOp::Le: return from_int(a.f <= b.f);
    case ExprOp::Eq: return from_int(a.f == b.f);
    case ExprOp::Ne: return from_int(a.f != b.f);
    case ExprOp::IsNan: return from_int(std::isnan(a.f));
    case ExprOp::IsInf: return from_int(std::isinf(a.f));
    default: return from_float(round_to(t, float_op(op, t, a.f, b.f, c.f)));
  }
}

Value convert(DType to, DType from, Value v) {
  if (is_float(from)) {
    if (is_float(to)) return from_float(round_to(to, v.f));
    if (to == DType::Bool) return from_int(v.f != 0);
    if (std::isnan(v.f)) return from_int(0);
    int bits = rlxc::bits(to);
    bool is_unsigned = dtype_class(to) == DTypeClass::UInt;
    double upper = std::ldexp(1.0, is_unsigned ? bits : bits - 1), lower = is_unsigned ? 0 : -upper;
    if (v.f >= upper) return from_int(wrap_int(to, is_unsigned ? -1 : static_cast<int64_t>((uint64_t{1} << (bits - 1)) - 1)));
    if (v.f <= lower) return from_int(is_unsigned ? 0 : bits == 64 ? INT64_MIN : -(int64_t{1} << (bits - 1)));
    return from_int(to == DType::U64 ? static_cast<int64_t>(static_cast<uint64_t>(v.f)) : static_cast<int64_t>(v.f));
  }
  if (!is_float(to)) return from_int(wrap_int(to, v.i));
  if (to == DType::F64)
    return from_float(from == DType::U64 ? static_cast<double>(static_cast<uint64_t>(v.i)) : static_cast<double>(v.i));
  return from_float(round_to(to, from == DType::U64 ? static_cast<float>(static_cast<uint64_t>(v.i)) : static_cast<float>(v.i)));
}

Value reinterpret(DType to, DType from, Value v) { return from_bits(to, bits_of(from, v)); }

Value read_element(DType t, const void* base, int64_t index) {
  uint64_t u = 0;
  size_t size = static_cast<size_t>(rlxc::bits(t) / 8);
  std::memcpy(&u, static_cast<const char*>(base) + static_cast<size_t>(index) * size, size);
  return from_bits(t, u);
}

void write_element(DType t, void* base, int64_t index, Value v) {
  uint64_t u = bits_of(t, v);
  size_t size = static_cast<size_t>(rlxc::bits(t) / 8);
  std::memcpy(static_cast<char*>(base) + static_cast<size_t>(index) * size, &u, size);
}

}  // namespace rlxc::kernel
