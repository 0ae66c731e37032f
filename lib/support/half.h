// Low-precision floating-point formats as bit patterns. Conversions from wider types round once, to nearest, ties to even.
// f16: IEEE 754-2019 binary16. bf16: the upper half of binary32. f8e4m3fn, f8e5m2: OCP 8-bit Floating Point Specification 1.0.
// f8*fnuz: Noune et al. 2022, as in ONNX (no infinity, no -0, one NaN 0x80). f4e2m1, f8e8m0: OCP Microscaling 1.0.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>

#include "support/dtype.h"

namespace rlxc {

inline float f16_to_float(uint16_t h) {
  const uint32_t sign = (h & 0x8000u) << 16, magnitude = h & 0x7FFFu;
  if (magnitude >= 0x7C00) return std::bit_cast<float>(sign | 0x7F800000u | (magnitude & 0x3FF) << 13);
  // The shifted exponent is 112 too small. The product is exact and normalises subnormals.
  const float value = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | sign);
}

// Values above 65504 by half a step or more become infinity. NaN becomes a quiet NaN.
inline uint16_t float_to_f16(float f) {
  const uint32_t bits = std::bit_cast<uint32_t>(f), sign = bits >> 16 & 0x8000u;
  uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return static_cast<uint16_t>(sign | 0x7E00u | (magnitude >> 13 & 0x3FFu));
  if (magnitude >= 0x47800000u) return static_cast<uint16_t>(sign | 0x7C00u);
  if (magnitude < 0x38800000u) {  // subnormal: one ulp of 0.5f is one ulp of the result
    const float aligned = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(aligned) - 0x3F000000u));
  }
  magnitude += 0xFFFu + (magnitude >> 13 & 1u);
  return static_cast<uint16_t>(sign | (magnitude - 0x38000000u) >> 13);
}

inline float bf16_to_float(uint16_t h) { return std::bit_cast<float>(uint32_t{h} << 16); }

inline uint16_t float_to_bf16(float f) {
  const uint32_t bits = std::bit_cast<uint32_t>(f);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<uint16_t>(bits >> 16 | 0x40u);
  return static_cast<uint16_t>((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}

// Rounds to a float whose last bit records inexactness (round to odd), so that a second rounding to <= 22 bits is correct.
inline float round_to_odd(double d) {
  const float f = static_cast<float>(d);
  if (std::isnan(d) || static_cast<double>(f) == d) return f;
  uint32_t bits = std::bit_cast<uint32_t>(f);
  if (std::fabs(static_cast<double>(f)) > std::fabs(d)) --bits;
  return std::bit_cast<float>(bits | 1u);
}

inline uint16_t double_to_f16(double d) { return float_to_f16(round_to_odd(d)); }
inline uint16_t double_to_bf16(double d) { return float_to_bf16(round_to_odd(d)); }

// Overflow behaviour (including infinity): the largest finite value, or infinity (NaN in formats without it); the attribute
// `saturate` of ONNX Cast and QuantizeLinear. f4e2m1 has neither and always saturates.
enum class Saturate : bool { No, Yes };

// Convert any float type but f64; `bits` are the low bits. `saturate` applies to the 8-bit types; f16, bf16 and f32 overflow to
// infinity. f8e8m0 holds 2^-127..2^127 and NaN: rounds by value, ties up; zero gives 2^-127, negative values NaN. NaN as f4e2m1
// gives -0, as in the ONNX tests, since the format has none.
uint32_t encode_float(DType, double value, Saturate = Saturate::Yes);
double decode_float(DType, uint32_t bits);
double largest_finite(DType);  // for types of at most 8 bits

// All values of a float type of at most 8 bits, indexed by bit pattern (2^bits entries).
const float* decode_table(DType);

}  // namespace rlxc
