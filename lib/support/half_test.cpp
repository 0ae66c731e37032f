#include "support/half.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

using namespace rlxc;

static constexpr double kInf = std::numeric_limits<double>::infinity();
static constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
static constexpr DType kNarrow[] = {DType::F8E4M3FN, DType::F8E4M3FNUZ, DType::F8E5M2, DType::F8E5M2FNUZ, DType::F4E2M1};

// Nearest bit pattern by search over all finite values, ties to the even pattern.
static uint32_t nearest_code(DType t, double magnitude, uint32_t max_code) {
  uint32_t best = 0;
  for (uint32_t c = 1; c <= max_code; ++c) {
    const double d = std::fabs(decode_float(t, c) - magnitude), b = std::fabs(decode_float(t, best) - magnitude);
    if (d < b || (d == b && c % 2 == 0)) best = c;
  }
  return best;
}

TEST_CASE("every f16 and bf16 pattern survives the way to float and double and back") {
  size_t wrong = 0;
  for (uint32_t i = 0; i <= 0xFFFF; ++i) {
    const auto h = static_cast<uint16_t>(i);
    const uint16_t f16 = (h & 0x7FFF) > 0x7C00 ? h | 0x200 : h;
    const uint16_t bf16 = (h & 0x7FFF) > 0x7F80 ? h | 0x40 : h;
    wrong += float_to_f16(f16_to_float(h)) != f16 || double_to_f16(f16_to_float(h)) != f16;
    wrong += float_to_bf16(bf16_to_float(h)) != bf16 || double_to_bf16(bf16_to_float(h)) != bf16;
  }
  CHECK(wrong == 0);
}

TEST_CASE("every f16 has the value its fields say") {
  size_t wrong = 0;
  for (uint32_t i = 0; i < 0x7C00; ++i) {
    const int e = static_cast<int>(i >> 10);
    const double value = e == 0 ? std::ldexp(i & 0x3FF, -24) : std::ldexp(1024 + (i & 0x3FF), e - 25);
    wrong += f16_to_float(static_cast<uint16_t>(i)) != value;
    wrong += f16_to_float(static_cast<uint16_t>(i | 0x8000)) != -value;
  }
  CHECK(wrong == 0);
  CHECK(f16_to_float(0x7C00) == kInf);
  CHECK(std::isnan(f16_to_float(0x7C01)));
}

TEST_CASE("midpoints between neighbours go to the even one, everything else to the nearer one") {
  const auto check = [](auto to_float, auto from_float, auto from_double, uint16_t infinity) {
    size_t wrong = 0;
    for (uint32_t i = 0; i < infinity; ++i) {
      const auto low = static_cast<uint16_t>(i), high = static_cast<uint16_t>(i + 1);
      const double a = to_float(low);
      const double step = i == 0 ? double{to_float(high)} : a - to_float(static_cast<uint16_t>(i - 1));
      const double b = high == infinity ? a + step : double{to_float(high)};
      const double mid = a + (b - a) / 2;
      wrong += from_double(mid) != (i % 2 == 0 ? low : high);
      wrong += from_double(std::nextafter(mid, kInf)) != high || from_double(std::nextafter(mid, 0.0)) != low;
      const auto m = static_cast<float>(mid);
      if (m != mid) continue;  // a midpoint between the two smallest bf16 does not exist in f32
      wrong += from_float(m) != (i % 2 == 0 ? low : high) || from_float(-m) != ((i % 2 == 0 ? low : high) | 0x8000);
      wrong += from_float(std::nextafter(m, std::numeric_limits<float>::infinity())) != high ||
               from_float(std::nextafter(m, 0.0f)) != low;
    }
    CHECK(wrong == 0);
  };
  check(f16_to_float, float_to_f16, double_to_f16, 0x7C00);
  check(bf16_to_float, float_to_bf16, double_to_bf16, 0x7F80);
}

TEST_CASE("a double is rounded once") {
  const double d = 1 + 0x1p-11 + 0x1p-40;  // as a float this is the midpoint, which would round down
  CHECK(double_to_f16(d) == 0x3C01);
  CHECK(float_to_f16(static_cast<float>(d)) == 0x3C00);
  CHECK(double_to_bf16(1 + 0x1p-8 + 0x1p-40) == 0x3F81);
  CHECK(double_to_f16(1e300) == 0x7C00);
  CHECK(double_to_bf16(-1e300) == 0xFF80);
  CHECK(double_to_f16(-1e-300) == 0x8000);
  CHECK((double_to_f16(kNan) & 0x7FFF) > 0x7C00);
}

TEST_CASE("the extremes of the narrow formats are those of their specifications") {
  CHECK(decode_float(DType::F8E4M3FN, 0x7E) == 448);
  CHECK(decode_float(DType::F8E4M3FN, 0x01) == 0x1p-9);
  CHECK(decode_float(DType::F8E4M3FNUZ, 0x7F) == 240);
  CHECK(decode_float(DType::F8E4M3FNUZ, 0x01) == 0x1p-10);
  CHECK(decode_float(DType::F8E5M2, 0x7B) == 57344);
  CHECK(decode_float(DType::F8E5M2, 0xFC) == -kInf);
  CHECK(decode_float(DType::F8E5M2, 0x01) == 0x1p-16);
  CHECK(decode_float(DType::F8E5M2FNUZ, 0x7F) == 57344);
  CHECK(decode_float(DType::F8E5M2FNUZ, 0x01) == 0x1p-17);
  for (uint32_t i = 0; i < 8; ++i) CHECK(decode_float(DType::F4E2M1, i) == std::vector<double>{0, .5, 1, 1.5, 2, 3, 4, 6}[i]);
  for (auto [t, nan] : {std::pair{DType::F8E4M3FN, 0x7F},
                        {DType::F8E4M3FN, 0xFF},
                        {DType::F8E4M3FNUZ, 0x80},
                        {DType::F8E5M2FNUZ, 0x80},
                        {DType::F8E5M2, 0x7D},
                        {DType::F8E8M0, 0xFF}})
    CHECK(std::isnan(decode_float(t, static_cast<uint32_t>(nan))));
}

TEST_CASE("narrow formats: every code round-trips, every random value goes to the nearest") {
  std::mt19937_64 random(7);
  for (DType t : kNarrow) {
    CAPTURE(name(t));
    const uint32_t codes = 1u << bits(t), half = codes / 2;
    uint32_t max_code = half - 1;
    while (!std::isfinite(decode_float(t, max_code))) --max_code;
    for (uint32_t c = 0; c < codes; ++c) {
      const double v = decode_float(t, c);
      if (std::isnan(v)) CHECK(std::isnan(decode_float(t, encode_float(t, v))));
      else if (std::isfinite(v)) CHECK(encode_float(t, v) == c);
    }
    size_t wrong = 0;
    for (int i = 0; i < 2000; ++i) {
      const double x = std::ldexp(std::uniform_real_distribution<>(1, 2)(random), static_cast<int>(random() % 40) - 22);
      if (x < decode_float(t, max_code)) wrong += encode_float(t, x) != nearest_code(t, x, max_code);
    }
    for (uint32_t c = 0; c < max_code; ++c) {
      const double mid = (decode_float(t, c) + decode_float(t, c + 1)) / 2;
      wrong += encode_float(t, mid) != c + c % 2;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("overflow saturates or becomes infinity or NaN, as asked") {
  const auto code = [](DType t, double v, Saturate s) { return encode_float(t, v, s); };
  CHECK(code(DType::F8E4M3FN, 464, Saturate::No) == 0x7E);  // the midpoint to the missing 480 is even at 448
  CHECK(code(DType::F8E4M3FN, 465, Saturate::No) == 0x7F);
  CHECK(code(DType::F8E4M3FN, -1e9, Saturate::No) == 0xFF);
  CHECK(code(DType::F8E4M3FN, kInf, Saturate::No) == 0x7F);
  CHECK(code(DType::F8E4M3FN, -kInf, Saturate::Yes) == 0xFE);
  CHECK(code(DType::F8E5M2, 1e9, Saturate::No) == 0x7C);
  CHECK(code(DType::F8E5M2, 1e9, Saturate::Yes) == 0x7B);
  CHECK(code(DType::F8E5M2FNUZ, -1e9, Saturate::No) == 0x80);
  CHECK(code(DType::F8E4M3FNUZ, -1e9, Saturate::Yes) == 0xFF);
  CHECK(code(DType::F8E4M3FNUZ, -0.0, Saturate::Yes) == 0);
  CHECK(code(DType::F8E4M3FN, -0.0, Saturate::Yes) == 0x80);
  CHECK(code(DType::F4E2M1, -100, Saturate::No) == 0xF);
  CHECK(code(DType::F4E2M1, kNan, Saturate::No) == 0x8);
}

TEST_CASE("f8e8m0 holds powers of two") {
  for (uint32_t c = 0; c < 255; ++c) CHECK(encode_float(DType::F8E8M0, decode_float(DType::F8E8M0, c)) == c);
  CHECK(encode_float(DType::F8E8M0, 1.49) == 127);
  CHECK(encode_float(DType::F8E8M0, 1.5) == 128);
  CHECK(encode_float(DType::F8E8M0, 0) == 0);
  CHECK(encode_float(DType::F8E8M0, -1) == 0xFF);
  CHECK(encode_float(DType::F8E8M0, 1e300, Saturate::No) == 0xFF);
  CHECK(encode_float(DType::F8E8M0, kInf, Saturate::Yes) == 0xFE);
}

TEST_CASE("tables agree with decoding") {
  for (DType t : {DType::F8E4M3FN, DType::F8E4M3FNUZ, DType::F8E5M2, DType::F8E5M2FNUZ, DType::F4E2M1, DType::F8E8M0})
    for (uint32_t c = 0; c < 1u << bits(t); ++c) {
      const double v = decode_float(t, c);
      CHECK((std::isnan(v) ? std::isnan(decode_table(t)[c]) : decode_table(t)[c] == v));
    }
  CHECK(decode_table(DType::F16) == nullptr);
}
