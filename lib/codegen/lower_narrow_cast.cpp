// Casts of types that the kernel language lacks: 8-bit floats in bytes, and 2- and 4-bit types packed several to a byte. Casts
// convert the bit patterns with integer arithmetic; formats as in support/half.h.
#include <algorithm>
#include <cmath>

#include "codegen/lowerings.h"
#include "kernel/builders/generate.h"

namespace rlxc::codegen {
namespace {

enum class Special : uint8_t { None, NanAtOnes, Ieee, NanAtMinusZero };

// Sign bit, exponent, mantissa. `max`: code of the largest finite value; `nan`: code of NaN.
struct Format {
  DType dtype;
  int mantissa, bias, bits, max, nan;
  Special special;
};
constexpr Format kFormats[] = {{DType::F8E4M3FN, 3, 7, 8, 0x7E, 0x7F, Special::NanAtOnes},
                               {DType::F8E4M3FNUZ, 3, 8, 8, 0x7F, 0x80, Special::NanAtMinusZero},
                               {DType::F8E5M2, 2, 15, 8, 0x7B, 0x7F, Special::Ieee},
                               {DType::F8E5M2FNUZ, 2, 16, 8, 0x7F, 0x80, Special::NanAtMinusZero},
                               {DType::F4E2M1, 1, 1, 4, 0x7, 0x8, Special::None}};

const Format* format(DType t) {
  for (const Format& f : kFormats)
    if (f.dtype == t) return &f;
  return nullptr;
}

Expr f32_of(Expr bits) { return bitcast_to(cast_to(bits, DType::I32), DType::F32); }
Expr bits_of(Expr x) { return bitcast_to(x, DType::I32); }

// f8e8m0 encodes 2^(code - 127); 255 is NaN.
Expr decode_exponent(Expr code) {
  constexpr int kSmallest = 1 << 22, kNan = 0x7FC00000;  // 2^-127 is subnormal
  return f32_of(select(code == 255, kernel::lit(code, kNan), select(code == 0, kernel::lit(code, kSmallest), code << 23)));
}

// Rounds to the nearest power by value. Ties round up.
Expr encode_exponent(Expr x, bool saturate) {
  const Expr bits = bits_of(x), exponent = bits >> 23, fraction = bits & 0x7FFFFF;
  const Expr up =
      select(fraction >= select(exponent == 0, kernel::lit(bits, 0x600000), kernel::lit(bits, 0x400000)), exponent + 1, exponent);
  const Expr code = select(up > 254, kernel::lit(bits, saturate ? 254 : 255), up);
  return select(isnan(x) || x < 0, kernel::lit(bits, 255), select(x == 0, kernel::lit(bits, 0), code));
}

// Decodes an i32 bit pattern as f32.
Expr decode(const Format& f, Expr code) {
  const int sign_bit = 1 << (f.bits - 1);
  const Expr magnitude = code & (sign_bit - 1), exponent = magnitude >> f.mantissa;
  const Expr normal = f32_of((magnitude << (23 - f.mantissa)) + ((127 - f.bias) << 23));
  const Expr subnormal = cast_to(magnitude, DType::F32) * std::ldexp(1.0, 1 - f.bias - f.mantissa);
  Expr value = select(exponent == 0, subnormal, normal);
  const Expr infinity = f32_of(kernel::lit(code, 0x7F800000)), nan = f32_of(kernel::lit(code, 0x7FC00000));
  if (f.special == Special::Ieee) value = select(magnitude == f.max + 1, infinity, value);
  value = select((code & sign_bit) != 0, -value, value);
  if (f.special == Special::NanAtMinusZero) return select(code == sign_bit, nan, value);
  return f.special == Special::None ? value : select(magnitude > f.max + (f.special == Special::Ieee), nan, value);
}

// Rounds once, to nearest even. A carry out of the mantissa increments the exponent.
Expr encode(const Format& f, Expr x, bool saturate) {
  const int lowest = 1 - f.bias, sign_bit = 1 << (f.bits - 1);
  const Expr magnitude = min(abs(x), 0x1p17);  // above the range of every format
  const Expr exponent = max((bits_of(magnitude) >> 23) - 127, lowest);
  const Expr steps = round_even(magnitude * f32_of((127 + f.mantissa - exponent) << 23));
  Expr code = ((exponent - lowest) << f.mantissa) + cast_to(steps, DType::I32);
  const Expr sign = select(bits_of(x) < 0, kernel::lit(code, sign_bit), kernel::lit(code, 0));
  const int beyond = saturate || f.special == Special::None ? f.max : f.special == Special::Ieee ? f.max + 1 : f.nan;
  const bool keeps_sign = saturate || f.special != Special::NanAtMinusZero;
  const Expr over = keeps_sign ? sign | beyond : kernel::lit(code, beyond);
  const Expr inside = f.special == Special::NanAtMinusZero ? select(code == 0, code, sign | code) : sign | code;
  return select(isnan(x), kernel::lit(code, f.nan), select(code > f.max, over, inside));
}

// Rounds a double to f32 with round-to-odd, which makes a second rounding exact.
Expr round_to_odd(Expr x) {
  const Expr f = cast_to(x, DType::F32), back = cast_to(f, DType::F64), bits = bits_of(f);
  const Expr odd = select(abs(back) > abs(x), bits - 1, bits) | 1;
  return select(back == x || isnan(x), f, f32_of(odd));
}

// Returns the i32 bit pattern of a value.
Expr code_of(DType t, Expr x, bool saturate) {
  if (is_integer(t)) {
    const int mask = (1 << rlxc::bits(t)) - 1;
    return cast_to(x, DType::I32) & mask;
  }
  const Expr v = x.dtype() == DType::F64 ? round_to_odd(x) : cast_to(x, DType::F32);
  return t == DType::F8E8M0 ? encode_exponent(v, saturate) : encode(*format(t), v, saturate);
}

}  // namespace

Expr narrow_value(DType t, Expr code) {
  if (const Format* f = format(t)) return decode(*f, code);
  if (t == DType::F8E8M0) return decode_exponent(code);
  const int sign_bit = 1 << (rlxc::bits(t) - 1);
  return is_signed(t) ? (code ^ sign_bit) - sign_bit : code;
}

bool lower_narrow_cast(Node& node) {
  const DType from = node.dtype(0), to = node.result_dtype();
  const bool narrow_from = is_narrow(from);
  const int a_byte_from = std::max(8 / rlxc::bits(from), 1), a_byte_to = std::max(8 / rlxc::bits(to), 1);
  const bool saturate = node.attrs<CastAttrs>().saturate;
  Scope s(node);
  auto& b = s.builder();
  const Expr count = s.size(node.table().product(node.result_dims())).in(s.kernel());
  Buf data = s.in_buf(0);
  const auto element = [&](Expr i) {
    Expr v = data[a_byte_from > 1 ? i / a_byte_from : i];
    if (!narrow_from) return cast_to(v, kernel::compute_dtype(from));
    v = cast_to(v, DType::I32);
    const int width = rlxc::bits(from);
    return narrow_value(from, width < 8 ? v >> cast_to(i % a_byte_from * width, DType::I32) & ((1 << width) - 1) : v);
  };
  const auto converted = [&](Expr i) {
    const Expr v = b.let("v", element(i));
    if (is_narrow(to)) return code_of(to, v, saturate);
    return to == DType::Bool ? v != kernel::lit(v, 0) : v;
  };
  const auto outputs = s.outputs();
  const Dims shape = {a_byte_to > 1 ? (count + (a_byte_to - 1)) / a_byte_to : count};
  kernel::build_generate(b, shape, outputs, 8, node.mapping(), [&](const std::vector<Expr>& at) -> std::vector<Expr> {
    if (a_byte_to == 1) return {converted(at[0])};
    const Expr first = a_byte_to * at[0];
    Expr byte = converted(first);
    for (int k = 1; k < a_byte_to; ++k)
      byte = byte | select(first + k < count, converted(min(first + k, count - 1)), b.value(DType::I32, 0))
                        << (k * rlxc::bits(to));
    return {byte};
  });
  return s.finish(), true;
}

bool lower_bit_cast(Node& node) {
  Scope s(node);
  const Dims shape = {s.size(node.table().product(node.result_dims()))};
  Buf data = s.in_buf(0);
  const DType to = storage_dtype(node.result_dtype());
  const auto outputs = s.outputs();
  kernel::build_generate(s.builder(), shape, outputs, 8, node.mapping(), [&](const std::vector<Expr>& at) -> std::vector<Expr> {
    const Expr v = data[at[0]], bits = v.dtype() == DType::Bool ? cast_to(v, DType::U8) : v;
    return {to == DType::Bool ? bits != kernel::lit(bits, 0) : bitcast_to(bits, to)};
  });
  return s.finish(), true;
}

}  // namespace rlxc::codegen
