#include "support/half.h"

#include <algorithm>
#include <array>
#include <limits>

namespace rlxc {
namespace {

enum class Special : uint8_t { None, NanAtOnes, Ieee, NanAtMinusZero };

// A sign bit, then exponent and mantissa. `max`: bit pattern of the largest finite value.
struct Format {
  int mantissa, bias, bits;
  uint32_t max;
  Special special;
};

constexpr Format kE4M3FN{3, 7, 8, 0x7E, Special::NanAtOnes};
constexpr Format kE4M3FNUZ{3, 8, 8, 0x7F, Special::NanAtMinusZero};
constexpr Format kE5M2{2, 15, 8, 0x7B, Special::Ieee};
constexpr Format kE5M2FNUZ{2, 16, 8, 0x7F, Special::NanAtMinusZero};
constexpr Format kE2M1{1, 1, 4, 0x7, Special::None};

const Format* narrow_format(DType t) {
  switch (t) {
    case DType::F8E4M3FN: return &kE4M3FN;
    case DType::F8E4M3FNUZ: return &kE4M3FNUZ;
    case DType::F8E5M2: return &kE5M2;
    case DType::F8E5M2FNUZ: return &kE5M2FNUZ;
    case DType::F4E2M1: return &kE2M1;
    default: return nullptr;
  }
}

uint32_t nan_code(const Format& f) {
  switch (f.special) {
    case Special::NanAtMinusZero: return 0x80;
    case Special::None: return 1u << (f.bits - 1);
    default: return 0x7F;
  }
}

uint32_t encode_narrow(const Format& f, double value, Saturate saturate) {
  if (std::isnan(value)) return nan_code(f);
  const uint32_t sign = std::signbit(value) ? 1u << (f.bits - 1) : 0;
  const double magnitude = std::fabs(value);
  uint32_t code = f.max + 1;
  // All formats here end below 2^17; larger values need no rounding.
  if (magnitude < 0x1p17) {
    const int lowest = 1 - f.bias;
    const int exponent = magnitude == 0 ? lowest : std::max(std::ilogb(magnitude), lowest);
    // A carry out of the mantissa increments the exponent.
    const auto mantissa = static_cast<uint32_t>(std::nearbyint(std::ldexp(magnitude, f.mantissa - exponent)));
    code = (static_cast<uint32_t>(exponent - lowest) << f.mantissa) + mantissa;
  }
  if (code > f.max) {
    if (saturate == Saturate::Yes || f.special == Special::None) return sign | f.max;
    if (f.special == Special::NanAtMinusZero) return nan_code(f);
    return sign | (f.special == Special::Ieee ? f.max + 1 : 0x7F);
  }
  return code == 0 && f.special == Special::NanAtMinusZero ? 0 : sign | code;
}

double decode_narrow(const Format& f, uint32_t code) {
  const uint32_t sign_bit = 1u << (f.bits - 1);
  const uint32_t magnitude = code & (sign_bit - 1);
  const bool negative = code & sign_bit;
  if (f.special == Special::NanAtMinusZero && code == sign_bit) return std::numeric_limits<double>::quiet_NaN();
  if (magnitude > f.max) {
    if (f.special == Special::Ieee && magnitude == f.max + 1)
      return negative ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
    return std::numeric_limits<double>::quiet_NaN();
  }
  const int exponent = static_cast<int>(magnitude >> f.mantissa);
  const uint32_t hidden = exponent == 0 ? 0 : 1u << f.mantissa;
  const double significand = (magnitude & ((1u << f.mantissa) - 1)) + hidden;
  const double value = std::ldexp(significand, (exponent == 0 ? 1 : exponent) - f.bias - f.mantissa);
  return negative ? -value : value;
}

uint32_t encode_e8m0(double value, Saturate saturate) {
  constexpr uint32_t kNan = 0xFF, kMax = 0xFE;
  if (std::isnan(value) || value < 0) return kNan;
  if (value < 0x1p-127) return 0;
  if (std::isinf(value)) return saturate == Saturate::Yes ? kMax : kNan;
  const int exponent = std::ilogb(value);
  const int code = exponent + 127 + (value >= std::ldexp(1.5, exponent));
  if (code > static_cast<int>(kMax)) return saturate == Saturate::Yes ? kMax : kNan;
  return static_cast<uint32_t>(code);
}

double decode_e8m0(uint32_t code) {
  return code == 0xFF ? std::numeric_limits<double>::quiet_NaN() : std::ldexp(1.0, static_cast<int>(code) - 127);
}

using ByteTable = std::array<float, 256>;

template <DType T>
const float* table() {
  static const ByteTable values = [] {
    ByteTable t{};
    for (uint32_t i = 0; i < 1u << bits(T); ++i) t[i] = static_cast<float>(decode_float(T, i));
    return t;
  }();
  return values.data();
}

}  // namespace

uint32_t encode_float(DType t, double value, Saturate saturate) {
  if (const Format* f = narrow_format(t)) return encode_narrow(*f, value, saturate);
  switch (t) {
    case DType::F16: return double_to_f16(value);
    case DType::BF16: return double_to_bf16(value);
    case DType::F8E8M0: return encode_e8m0(value, saturate);
    default: return std::bit_cast<uint32_t>(static_cast<float>(value));
  }
}

double decode_float(DType t, uint32_t code) {
  if (const Format* f = narrow_format(t)) return decode_narrow(*f, code & ((1u << f->bits) - 1));
  switch (t) {
    case DType::F16: return f16_to_float(static_cast<uint16_t>(code));
    case DType::BF16: return bf16_to_float(static_cast<uint16_t>(code));
    case DType::F8E8M0: return decode_e8m0(code & 0xFF);
    default: return std::bit_cast<float>(code);
  }
}

double largest_finite(DType t) { return decode_float(t, encode_float(t, std::numeric_limits<double>::max())); }

const float* decode_table(DType t) {
  switch (t) {
    case DType::F8E4M3FN: return table<DType::F8E4M3FN>();
    case DType::F8E4M3FNUZ: return table<DType::F8E4M3FNUZ>();
    case DType::F8E5M2: return table<DType::F8E5M2>();
    case DType::F8E5M2FNUZ: return table<DType::F8E5M2FNUZ>();
    case DType::F4E2M1: return table<DType::F4E2M1>();
    case DType::F8E8M0: return table<DType::F8E8M0>();
    default: return nullptr;
  }
}

}  // namespace rlxc
