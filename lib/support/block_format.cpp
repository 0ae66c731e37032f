#include "support/block_format.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "support/half.h"
#include "support/saturate.h"

namespace rlxc {
namespace {

using Bytes = std::span<const uint8_t>;
using Values = std::span<const float>;

float f16_at(Bytes b, size_t i) { return f16_to_float(static_cast<uint16_t>(b[i] | b[i + 1] << 8)); }
// Stores v as f16 and returns the rounded value.
float put_f16(std::span<uint8_t> b, size_t i, float v) {
  const uint16_t h = float_to_f16(v);
  b[i] = static_cast<uint8_t>(h);
  b[i + 1] = static_cast<uint8_t>(h >> 8);
  return f16_to_float(h);
}
int nearest(float v, int low, int high) { return std::clamp(saturating_cast<int>(std::nearbyint(v)), low, high); }
// The quant of x for a step; 0, clamped, if the step is 0.
int quant(float x, float step, int low, int high) { return step == 0 ? std::clamp(0, low, high) : nearest(x / step, low, high); }

struct Extremes {
  float low = 0, high = 0, largest = 0;  // largest: element of the greatest magnitude, with its sign
};
Extremes extremes(Values v) {
  Extremes e{v[0], v[0], v[0]};
  for (float x : v) {
    e.low = std::min(e.low, x);
    e.high = std::max(e.high, x);
    if (std::fabs(x) > std::fabs(e.largest)) e.largest = x;
  }
  return e;
}

// 32 elements: d [, m], then the fifth bits, then 16 bytes of two quants: element j in the low half, j+16 in the high half.
template <int kBits, bool kMin>
struct Small {
  static constexpr size_t kHigh = kMin ? 4 : 2, kQuants = kHigh + (kBits == 5 ? 4 : 0);
  static void decode(Bytes b, std::span<float> out) {
    const float d = f16_at(b, 0), m = kMin ? f16_at(b, 2) : 0;
    for (size_t j = 0; j < 32; ++j) {
      int q = j < 16 ? b[kQuants + j] & 15 : b[kQuants + j - 16] >> 4;
      if (kBits == 5) q |= (b[kHigh + j / 8] >> (j % 8) & 1) << 4;
      out[j] = kMin ? d * static_cast<float>(q) + m : d * static_cast<float>(q - (1 << (kBits - 1)));
    }
  }
  static void encode(Values v, std::span<uint8_t> b) {
    const Extremes e = extremes(v);
    const int top = (1 << kBits) - 1, middle = 1 << (kBits - 1);
    std::fill(b.begin(), b.end(), uint8_t{0});
    const float d = put_f16(b, 0, kMin ? (e.high - e.low) / static_cast<float>(top) : e.largest / static_cast<float>(-middle));
    const float m = kMin ? put_f16(b, 2, e.low) : 0;
    for (size_t j = 0; j < 32; ++j) {
      const int q = kMin ? quant(v[j] - m, d, 0, top) : quant(v[j], d, -middle, middle - 1) + middle;
      b[kQuants + j % 16] = static_cast<uint8_t>(b[kQuants + j % 16] | (q & 15) << (j < 16 ? 0 : 4));
      if (kBits == 5) b[kHigh + j / 8] = static_cast<uint8_t>(b[kHigh + j / 8] | q >> 4 << (j % 8));
    }
  }
};

// A scale and 8-bit quants.
template <size_t kCount, bool kWide>
struct Eight {
  static constexpr size_t kQuants = kWide ? 4 : 2;
  static void decode(Bytes b, std::span<float> out) {
    float d = 0;
    if (kWide) std::memcpy(&d, b.data(), 4);
    else d = f16_at(b, 0);
    for (size_t j = 0; j < kCount; ++j) out[j] = d * static_cast<float>(static_cast<int8_t>(b[kQuants + j]));
  }
  static void encode(Values v, std::span<uint8_t> b) {
    float d = std::fabs(extremes(v).largest) / 127;
    if (kWide) std::memcpy(b.data(), &d, 4);
    else d = put_f16(b, 0, d);
    for (size_t j = 0; j < kCount; ++j) b[kQuants + j] = static_cast<uint8_t>(quant(v[j], d, -127, 127));
    for (size_t s = 0; kWide && s < 16; ++s) {  // sums of 16 quants, for products with other formats
      int sum = 0;
      for (size_t j = 0; j < 16; ++j) sum += static_cast<int8_t>(b[kQuants + s * 16 + j]);
      b[kQuants + kCount + 2 * s] = static_cast<uint8_t>(sum);
      b[kQuants + kCount + 2 * s + 1] = static_cast<uint8_t>(sum >> 8);
    }
  }
};

// Scales and minima of 6 bits, eight each, in 12 bytes.
struct SixBits {
  int scale = 0, min = 0;
};
SixBits six_bits(Bytes s, size_t j) {
  if (j < 4) return {s[j] & 63, s[j + 4] & 63};
  return {(s[j + 4] & 15) | s[j - 4] >> 6 << 4, s[j + 4] >> 4 | s[j] >> 6 << 4};
}
void put_six_bits(std::span<uint8_t> s, size_t j, SixBits v) {
  const auto add = [&](size_t i, int bits) { s[i] = static_cast<uint8_t>(s[i] | bits); };
  if (j < 4) {
    add(j, v.scale);
    return add(j + 4, v.min);
  }
  add(j + 4, (v.scale & 15) | (v.min & 15) << 4);
  add(j - 4, v.scale >> 4 << 6);
  add(j, v.min >> 4 << 6);
}

// d, dmin, 12 bytes of scales, [32 bytes of fifth bits,] 128 bytes of two quants: x = d*scale*q - dmin*min in blocks of 32.
template <int kBits>
struct Medium {
  static constexpr size_t kHigh = 16, kQuants = kBits == 5 ? 48 : 16;
  static void decode(Bytes b, std::span<float> out) {
    const float d = f16_at(b, 0), dmin = f16_at(b, 2);
    for (size_t i = 0; i < 256; ++i) {
      const size_t run = i / 32, l = i % 32;
      const SixBits s = six_bits(b.subspan(4, 12), run);
      int q = b[kQuants + run / 2 * 32 + l] >> (run % 2 * 4) & 15;
      if (kBits == 5) q += (b[kHigh + l] >> run & 1) << 4;
      out[i] = d * static_cast<float>(s.scale * q) - dmin * static_cast<float>(s.min);
    }
  }
  static void encode(Values v, std::span<uint8_t> b) {
    const int top = (1 << kBits) - 1;
    std::array<float, 8> scale{}, min{};
    for (size_t run = 0; run < 8; ++run) {
      const Extremes e = extremes(v.subspan(run * 32, 32));
      min[run] = std::max(-e.low, 0.0f);
      scale[run] = (e.high + min[run]) / static_cast<float>(top);
    }
    std::fill(b.begin(), b.end(), uint8_t{0});
    const float d = put_f16(b, 0, *std::ranges::max_element(scale) / 63),
                dmin = put_f16(b, 2, *std::ranges::max_element(min) / 63);
    for (size_t run = 0; run < 8; ++run) {
      const SixBits s{quant(scale[run], d, 0, 63), quant(min[run], dmin, 0, 63)};
      put_six_bits(b.subspan(4, 12), run, s);
      for (size_t l = 0; l < 32; ++l) {
        const int q = quant(v[run * 32 + l] + dmin * static_cast<float>(s.min), d * static_cast<float>(s.scale), 0, top);
        uint8_t& byte = b[kQuants + run / 2 * 32 + l];
        byte = static_cast<uint8_t>(byte | (q & 15) << (run % 2 * 4));
        if (kBits == 5) b[kHigh + l] = static_cast<uint8_t>(b[kHigh + l] | q >> 4 << run);
      }
    }
  }
};

// Position of the 2-bit quant of element i of 256: two halves of 128, each with four groups of 32 at different shifts.
struct TwoBits {
  size_t byte;
  int shift;
  explicit TwoBits(size_t i) : byte(i / 128 * 32 + i % 32), shift(static_cast<int>(i % 128 / 32 * 2)) {}
};

// 16 bytes of scale and minimum (4 bits each, per 16 elements), 64 bytes of quants, d, dmin.
struct TwoK {
  static void decode(Bytes b, std::span<float> out) {
    const float d = f16_at(b, 80), dmin = f16_at(b, 82);
    for (size_t i = 0; i < 256; ++i) {
      const TwoBits at(i);
      out[i] = d * static_cast<float>((b[i / 16] & 15) * (b[16 + at.byte] >> at.shift & 3)) -
               dmin * static_cast<float>(b[i / 16] >> 4);
    }
  }
  static void encode(Values v, std::span<uint8_t> b) {
    std::array<float, 16> scale{}, min{};
    for (size_t run = 0; run < 16; ++run) {
      const Extremes e = extremes(v.subspan(run * 16, 16));
      min[run] = std::max(-e.low, 0.0f);
      scale[run] = (e.high + min[run]) / 3;
    }
    std::fill(b.begin(), b.end(), uint8_t{0});
    const float d = put_f16(b, 80, *std::ranges::max_element(scale) / 15),
                dmin = put_f16(b, 82, *std::ranges::max_element(min) / 15);
    for (size_t i = 0; i < 256; ++i) {
      const int s = quant(scale[i / 16], d, 0, 15), m = quant(min[i / 16], dmin, 0, 15);
      b[i / 16] = static_cast<uint8_t>(s | m << 4);
      const TwoBits at(i);
      const int q = quant(v[i] + dmin * static_cast<float>(m), d * static_cast<float>(s), 0, 3);
      b[16 + at.byte] = static_cast<uint8_t>(b[16 + at.byte] | q << at.shift);
    }
  }
};

// 32 bytes of third bits, 64 bytes of quants, 12 bytes of scales (6 bits minus 32, per 16 elements), d. A third bit of 0
// subtracts 4.
struct ThreeK {
  static int scale_of(Bytes s, size_t j) {
    const int low = j < 8 ? s[j] & 15 : s[j - 8] >> 4;
    return (low | (s[8 + j % 4] >> (j / 4 * 2) & 3) << 4) - 32;
  }
  static void decode(Bytes b, std::span<float> out) {
    const float d = f16_at(b, 108);
    for (size_t i = 0; i < 256; ++i) {
      const TwoBits at(i);
      const int q = (b[32 + at.byte] >> at.shift & 3) - (b[i % 32] >> (i / 32) & 1 ? 0 : 4);
      out[i] = d * static_cast<float>(scale_of(b.subspan(96, 12), i / 16) * q);
    }
  }
  static void encode(Values v, std::span<uint8_t> b) {
    std::array<float, 16> scale{};
    for (size_t run = 0; run < 16; ++run) scale[run] = extremes(v.subspan(run * 16, 16)).largest / -4;
    std::fill(b.begin(), b.end(), uint8_t{0});
    const float d = put_f16(b, 108, extremes(scale).largest / -32);
    for (size_t j = 0; j < 16; ++j) {
      const int s = quant(scale[j], d, -32, 31) + 32;
      b[96 + j % 8] = static_cast<uint8_t>(b[96 + j % 8] | (s & 15) << (j < 8 ? 0 : 4));
      b[104 + j % 4] = static_cast<uint8_t>(b[104 + j % 4] | s >> 4 << (j / 4 * 2));
    }
    for (size_t i = 0; i < 256; ++i) {
      const int s = scale_of(b.subspan(96, 12), i / 16), q = quant(v[i], d * static_cast<float>(s), -4, 3) + 4;
      const TwoBits at(i);
      b[32 + at.byte] = static_cast<uint8_t>(b[32 + at.byte] | (q & 3) << at.shift);
      b[i % 32] = static_cast<uint8_t>(b[i % 32] | q >> 2 << (i / 32));
    }
  }
};

// 128 bytes of low halves, 64 bytes of upper bits, 16 scales (i8, per 16 elements), d: x = d*scale*(q-32).
struct SixK {
  static void decode(Bytes b, std::span<float> out) {
    const float d = f16_at(b, 208);
    for (size_t i = 0; i < 256; ++i) {
      const TwoBits at(i);
      const size_t half = i / 128, run = i % 128 / 32;
      const int low = b[half * 64 + run % 2 * 32 + i % 32] >> (run / 2 * 4) & 15, high = b[128 + at.byte] >> at.shift & 3;
      out[i] = d * static_cast<float>(static_cast<int8_t>(b[192 + i / 16]) * ((low | high << 4) - 32));
    }
  }
  static void encode(Values v, std::span<uint8_t> b) {
    std::array<float, 16> scale{};
    for (size_t run = 0; run < 16; ++run) scale[run] = extremes(v.subspan(run * 16, 16)).largest / -32;
    std::fill(b.begin(), b.end(), uint8_t{0});
    const float d = put_f16(b, 208, extremes(scale).largest / -128);
    for (size_t j = 0; j < 16; ++j) b[192 + j] = static_cast<uint8_t>(quant(scale[j], d, -128, 127));
    for (size_t i = 0; i < 256; ++i) {
      const TwoBits at(i);
      const size_t half = i / 128, run = i % 128 / 32;
      const int q = quant(v[i], d * static_cast<float>(static_cast<int8_t>(b[192 + i / 16])), -32, 31) + 32;
      uint8_t& low = b[half * 64 + run % 2 * 32 + i % 32];
      low = static_cast<uint8_t>(low | (q & 15) << (run / 2 * 4));
      b[128 + at.byte] = static_cast<uint8_t>(b[128 + at.byte] | q >> 4 << at.shift);
    }
  }
};

size_t nearest_entry(std::span<const float> table, float v, float d) {
  size_t best = 0;
  for (size_t k = 1; k < table.size(); ++k)
    if (std::fabs(v - d * table[k]) < std::fabs(v - d * table[best])) best = k;
  return best;
}

// A scale and 16 bytes of two indices into a table of 16 numbers.
template <bool kPowerOfTwo>
struct Table {
  static constexpr size_t kQuants = kPowerOfTwo ? 1 : 2;
  static std::span<const float> table() { return kPowerOfTwo ? fp4_values() : iq4_nl_values(); }
  static float scale(Bytes b) { return kPowerOfTwo ? static_cast<float>(decode_float(DType::F8E8M0, b[0])) : f16_at(b, 0); }
  static void decode(Bytes b, std::span<float> out) {
    for (size_t j = 0; j < 32; ++j) out[j] = scale(b) * table()[j < 16 ? b[kQuants + j] & 15 : b[kQuants + j - 16] >> 4];
  }
  static void encode(Values v, std::span<uint8_t> b) {
    const float largest = extremes(v).largest;
    std::fill(b.begin(), b.end(), uint8_t{0});
    if (!kPowerOfTwo) put_f16(b, 0, largest / table()[0]);
    // The largest exponent of fp4 is 2: the scale maps the largest element to it.
    else b[0] = static_cast<uint8_t>(largest == 0 ? 0 : std::clamp(std::ilogb(largest) - 2 + 127, 0, 254));
    const float d = scale(b);
    for (size_t j = 0; j < 32; ++j) {
      const size_t best = nearest_entry(table(), v[j], d);
      b[kQuants + j % 16] = static_cast<uint8_t>(b[kQuants + j % 16] | best << (j < 16 ? 0 : 4));
    }
  }
};

// d, the upper 2 bits and then the lower 4 of eight scales (6 bits minus 32, per 32 elements), 128 bytes of two table indices:
// the first half of each 32 elements is in the low halves of 16 bytes.
struct FourXS {
  static int scale_of(Bytes b, size_t run) {
    return ((b[4 + run / 2] >> (run % 2 * 4) & 15) | (b[2 + run / 4] >> (run % 4 * 2) & 3) << 4) - 32;
  }
  static void decode(Bytes b, std::span<float> out) {
    for (size_t i = 0; i < 256; ++i) {
      const float d = f16_at(b, 0) * static_cast<float>(scale_of(b, i / 32));
      out[i] = d * iq4_nl_values()[b[8 + i / 32 * 16 + i % 16] >> (i % 32 / 16 * 4) & 15];
    }
  }
  static void encode(Values v, std::span<uint8_t> b) {
    std::array<float, 8> scale{};
    for (size_t run = 0; run < 8; ++run) scale[run] = extremes(v.subspan(run * 32, 32)).largest / iq4_nl_values()[0];
    std::fill(b.begin(), b.end(), uint8_t{0});
    const float d = put_f16(b, 0, extremes(scale).largest / -32);
    for (size_t run = 0; run < 8; ++run) {
      const int s = quant(scale[run], d, -32, 31) + 32;
      b[4 + run / 2] = static_cast<uint8_t>(b[4 + run / 2] | (s & 15) << (run % 2 * 4));
      b[2 + run / 4] = static_cast<uint8_t>(b[2 + run / 4] | s >> 4 << (run % 4 * 2));
    }
    for (size_t i = 0; i < 256; ++i) {
      const size_t q = nearest_entry(iq4_nl_values(), v[i], d * static_cast<float>(scale_of(b, i / 32)));
      uint8_t& byte = b[8 + i / 32 * 16 + i % 16];
      byte = static_cast<uint8_t>(byte | q << (i % 32 / 16 * 4));
    }
  }
};

// Four f8e4m3fn scales, whose NaN is 0, then 32 bytes of two FP4 values each. The low halves of 8 bytes hold the first 8 of 16
// elements, the high halves the others.
struct FourNv {
  static float scale(uint8_t b) {
    const double d = decode_float(DType::F8E4M3FN, b);
    return std::isnan(d) ? 0 : static_cast<float>(d);
  }
  static size_t byte(size_t i) { return 4 + i / 16 * 8 + i % 8; }
  static int shift(size_t i) { return i % 16 < 8 ? 0 : 4; }
  static void decode(Bytes b, std::span<float> out) {
    for (size_t i = 0; i < 64; ++i) out[i] = scale(b[i / 16]) * fp4_values()[b[byte(i)] >> shift(i) & 15];
  }
  static void encode(Values v, std::span<uint8_t> b) {
    constexpr float kLargest = 6;
    std::fill(b.begin(), b.end(), uint8_t{0});
    for (size_t s = 0; s < 4; ++s)
      b[s] = static_cast<uint8_t>(encode_float(DType::F8E4M3FN, std::fabs(extremes(v.subspan(s * 16, 16)).largest) / kLargest));
    for (size_t i = 0; i < 64; ++i)
      b[byte(i)] = static_cast<uint8_t>(b[byte(i)] | nearest_entry(fp4_values(), v[i], scale(b[i / 16])) << shift(i));
  }
};

// Elements -d, 0 or d: 64 bytes of 2-bit quants, d.
struct TernaryTwo {
  static void decode(Bytes b, std::span<float> out) {
    for (size_t i = 0; i < 256; ++i) {
      const TwoBits at(i);
      out[i] = f16_at(b, 64) * static_cast<float>((b[at.byte] >> at.shift & 3) - 1);
    }
  }
  static void encode(Values v, std::span<uint8_t> b) {
    std::fill(b.begin(), b.end(), uint8_t{0});
    const float d = put_f16(b, 64, std::fabs(extremes(v).largest));
    for (size_t i = 0; i < 256; ++i) {
      const TwoBits at(i);
      b[at.byte] = static_cast<uint8_t>(b[at.byte] | (quant(v[i], d, -1, 1) + 1) << at.shift);
    }
  }
};

// Five ternary quants per byte: the byte / 256 is a fraction whose base-3 digits are the quants, rounded up. 32 bytes hold five
// groups of 32, 16 bytes five of 16, 4 bytes four of 4; then d.
struct TernaryOne {
  struct Place {
    size_t byte, digit;
    explicit Place(size_t i)
        : byte(i < 160   ? i % 32
               : i < 240 ? 32 + i % 16
                         : 48 + i % 4),
          digit(i < 160   ? i / 32
                : i < 240 ? (i - 160) / 16
                          : (i - 240) / 4) {}
  };
  static void decode(Bytes b, std::span<float> out) {
    static constexpr unsigned kPowers[] = {1, 3, 9, 27, 81};
    for (size_t i = 0; i < 256; ++i) {
      const Place at(i);
      out[i] = f16_at(b, 52) * static_cast<float>(static_cast<int>((b[at.byte] * kPowers[at.digit] & 255) * 3 >> 8) - 1);
    }
  }
  static void encode(Values v, std::span<uint8_t> b) {
    static constexpr unsigned kWeights[] = {81, 27, 9, 3, 1};
    const float d = put_f16(b, 52, std::fabs(extremes(v).largest));
    std::array<unsigned, 52> digits{};
    for (size_t i = 0; i < 256; ++i) {
      const Place at(i);
      digits[at.byte] += kWeights[at.digit] * static_cast<unsigned>(quant(v[i], d, -1, 1) + 1);
    }
    for (size_t i = 0; i < 52; ++i) b[i] = static_cast<uint8_t>((digits[i] * 256 + 242) / 243);
  }
};

struct BlockFormatRow {
  std::string_view name;
  int elements, bytes;
  void (*decode)(Bytes, std::span<float>);
  void (*encode)(Values, std::span<uint8_t>);
};
template <class F>
constexpr BlockFormatRow row(std::string_view name, int elements, int bytes) {
  return {name, elements, bytes, F::decode, F::encode};
}
constexpr BlockFormatRow kBlockFormatRows[kBlockFormatCount] = {row<Small<4, false>>("q4_0", 32, 18),
                                                                row<Small<4, true>>("q4_1", 32, 20),
                                                                row<Small<5, false>>("q5_0", 32, 22),
                                                                row<Small<5, true>>("q5_1", 32, 24),
                                                                row<Eight<32, false>>("q8_0", 32, 34),
                                                                row<TwoK>("q2_k", 256, 84),
                                                                row<ThreeK>("q3_k", 256, 110),
                                                                row<Medium<4>>("q4_k", 256, 144),
                                                                row<Medium<5>>("q5_k", 256, 176),
                                                                row<SixK>("q6_k", 256, 210),
                                                                row<Eight<256, true>>("q8_k", 256, 292),
                                                                row<Table<false>>("iq4_nl", 32, 18),
                                                                row<FourXS>("iq4_xs", 256, 136),
                                                                row<TernaryOne>("tq1_0", 256, 54),
                                                                row<TernaryTwo>("tq2_0", 256, 66),
                                                                row<Table<true>>("mxfp4", 32, 17),
                                                                row<FourNv>("nvfp4", 64, 36)};

const BlockFormatRow& row_of(BlockFormat f) { return kBlockFormatRows[static_cast<size_t>(f)]; }

}  // namespace

std::string_view name(BlockFormat f) { return row_of(f).name; }
int block_elements(BlockFormat f) { return row_of(f).elements; }
int block_bytes(BlockFormat f) { return row_of(f).bytes; }

std::optional<BlockFormat> block_format_from_name(std::string_view name) {
  for (size_t i = 0; i < kBlockFormatCount; ++i)
    if (kBlockFormatRows[i].name == name) return static_cast<BlockFormat>(i);
  return std::nullopt;
}

void decode_block(BlockFormat f, std::span<const uint8_t> block, std::span<float> out) { row_of(f).decode(block, out); }
void encode_block(BlockFormat f, std::span<const float> values, std::span<uint8_t> out) { row_of(f).encode(values, out); }

std::span<const float> fp4_values() {
  static constexpr float kValues[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0f, -0.5, -1, -1.5, -2, -3, -4, -6};
  return kValues;
}
std::span<const float> iq4_nl_values() {
  static constexpr float kValues[] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
  return kValues;
}

}  // namespace rlxc
