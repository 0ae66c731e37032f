#include "support/block_format.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "support/half.h"
#include "support/random.h"

using namespace rlxc;

namespace {

using Bytes = std::vector<uint8_t>;

float half(const Bytes& b, size_t i) { return f16_to_float(static_cast<uint16_t>(b[i] | b[i + 1] << 8)); }

// The formulas of ggml-quants.c, as loops over pointers into the block.
std::vector<float> q4_0(const Bytes& b) {
  std::vector<float> x(32);
  for (size_t j = 0; j < 16; ++j) {
    x[j] = half(b, 0) * static_cast<float>((b[2 + j] & 15) - 8);
    x[j + 16] = half(b, 0) * static_cast<float>((b[2 + j] >> 4) - 8);
  }
  return x;
}
std::vector<float> q5_1(const Bytes& b) {
  std::vector<float> x(32);
  const uint32_t high = b[4] | b[5] << 8 | b[6] << 16 | static_cast<uint32_t>(b[7]) << 24;
  for (size_t j = 0; j < 16; ++j) {
    const auto first = static_cast<uint32_t>(b[8 + j] & 15) | (high >> j << 4 & 16),
               second = static_cast<uint32_t>(b[8 + j] >> 4) | (high >> (j + 12) & 16);
    x[j] = half(b, 0) * static_cast<float>(first) + half(b, 2);
    x[j + 16] = half(b, 0) * static_cast<float>(second) + half(b, 2);
  }
  return x;
}
void scale_min(size_t j, const uint8_t* q, int* d, int* m) {
  if (j < 4) {
    *d = q[j] & 63, *m = q[j + 4] & 63;
  } else {
    *d = (q[j + 4] & 0xF) | ((q[j - 4] >> 6) << 4);
    *m = (q[j + 4] >> 4) | ((q[j] >> 6) << 4);
  }
}
std::vector<float> q4_k(const Bytes& b) {
  std::vector<float> x;
  const uint8_t* q = b.data() + 16;
  for (size_t pair = 0; pair < 4; ++pair, q += 32)
    for (int high = 0; high < 2; ++high) {
      int d = 0, m = 0;
      scale_min(2 * pair + static_cast<size_t>(high), b.data() + 4, &d, &m);
      for (size_t l = 0; l < 32; ++l)
        x.push_back(half(b, 0) * static_cast<float>(d * (high ? q[l] >> 4 : q[l] & 15)) - half(b, 2) * static_cast<float>(m));
    }
  return x;
}
std::vector<float> q5_k(const Bytes& b) {
  std::vector<float> x;
  const uint8_t *q = b.data() + 48, *qh = b.data() + 16;
  for (size_t sub = 0; sub < 8; ++sub) {
    int d = 0, m = 0;
    scale_min(sub, b.data() + 4, &d, &m);
    for (size_t l = 0; l < 32; ++l) {
      const int low = sub % 2 ? q[sub / 2 * 32 + l] >> 4 : q[sub / 2 * 32 + l] & 15;
      x.push_back(half(b, 0) * static_cast<float>(d * (low + (qh[l] >> sub & 1 ? 16 : 0))) - half(b, 2) * static_cast<float>(m));
    }
  }
  return x;
}
std::vector<float> q6_k(const Bytes& b) {
  std::vector<float> x(256);
  for (size_t n = 0; n < 2; ++n)
    for (size_t l = 0; l < 32; ++l) {
      const uint8_t *ql = b.data() + n * 64, *qh = b.data() + 128 + n * 32;
      const auto* sc = reinterpret_cast<const int8_t*>(b.data() + 192 + n * 8);
      const int q[4] = {(ql[l] & 15) | (qh[l] & 3) << 4, (ql[l + 32] & 15) | (qh[l] >> 2 & 3) << 4,
                        ql[l] >> 4 | (qh[l] >> 4 & 3) << 4, ql[l + 32] >> 4 | (qh[l] >> 6 & 3) << 4};
      for (size_t k = 0; k < 4; ++k)
        x[n * 128 + k * 32 + l] = half(b, 208) * static_cast<float>(sc[l / 16 + 2 * k] * (q[k] - 32));
    }
  return x;
}
std::vector<float> q2_k(const Bytes& b) {
  std::vector<float> x;
  size_t is = 0;
  for (size_t n = 0; n < 2; ++n)
    for (int shift = 0; shift < 8; shift += 2)
      for (size_t part = 0; part < 2; ++part, ++is)
        for (size_t l = 0; l < 16; ++l) {
          const int q = b[16 + n * 32 + part * 16 + l] >> shift & 3;
          x.push_back(half(b, 80) * static_cast<float>((b[is] & 15) * q) - half(b, 82) * static_cast<float>(b[is] >> 4));
        }
  return x;
}
std::vector<float> q3_k(const Bytes& b) {
  std::vector<float> x;
  int scales[16];
  for (size_t j = 0; j < 16; ++j) {
    const int low = j < 8 ? b[96 + j] & 15 : b[96 + j - 8] >> 4, high = b[104 + j % 4] >> (2 * (j / 4)) & 3;
    scales[j] = low | high << 4;
  }
  size_t is = 0;
  uint8_t m = 1;
  for (size_t n = 0; n < 2; ++n)
    for (int shift = 0; shift < 8; shift += 2, m = static_cast<uint8_t>(m << 1))
      for (size_t part = 0; part < 2; ++part, ++is)
        for (size_t l = 0; l < 16; ++l) {
          const int q = (b[32 + n * 32 + part * 16 + l] >> shift & 3) - (b[part * 16 + l] & m ? 0 : 4);
          x.push_back(half(b, 108) * static_cast<float>((scales[is] - 32) * q));
        }
  return x;
}

std::vector<float> iq4_xs(const Bytes& b) {
  static constexpr int8_t kValues[] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
  std::vector<float> x;
  const int high = b[2] | b[3] << 8;
  for (size_t ib = 0; ib < 8; ++ib) {
    const int scale = (b[4 + ib / 2] >> 4 * (ib % 2) & 15) | (high >> 2 * ib & 3) << 4;
    for (int shift : {0, 4})
      for (size_t j = 0; j < 16; ++j)
        x.push_back(half(b, 0) * static_cast<float>((scale - 32) * kValues[b[8 + ib * 16 + j] >> shift & 15]));
  }
  return x;
}
std::vector<float> tq1_0(const Bytes& b) {
  std::vector<float> x;
  const auto run = [&](size_t from, size_t count, int digits) {
    for (int n = 0, power = 1; n < digits; ++n, power *= 3)
      for (size_t m = 0; m < count; ++m) {
        const auto q = static_cast<uint8_t>(b[from + m] * power);
        x.push_back(half(b, 52) * static_cast<float>((static_cast<uint16_t>(q) * 3 >> 8) - 1));
      }
  };
  run(0, 32, 5), run(32, 16, 5), run(48, 4, 4);
  return x;
}
std::vector<float> tq2_0(const Bytes& b) {
  std::vector<float> x;
  for (size_t j = 0; j < 64; j += 32)
    for (int shift = 0; shift < 8; shift += 2)
      for (size_t m = 0; m < 32; ++m) x.push_back(half(b, 64) * static_cast<float>((b[j + m] >> shift & 3) - 1));
  return x;
}
// A scale byte has 4 exponent bits, of bias 7, and 3 of the fraction; all ones are no number, which stands for 0.
std::vector<float> nvfp4(const Bytes& b) {
  constexpr float kValues[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  std::vector<float> x(64);
  for (size_t s = 0; s < 4; ++s) {
    const int exponent = b[s] >> 3 & 15, fraction = b[s] & 7;
    float d = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -9)
                            : std::ldexp(1 + static_cast<float>(fraction) / 8, exponent - 7);
    if ((b[s] & 127) == 127) d = 0;
    if (b[s] & 128) d = -d;
    for (size_t j = 0; j < 16; ++j) {
      const int q = b[4 + s * 8 + j % 8] >> (j < 8 ? 0 : 4) & 15;
      x[s * 16 + j] = d * kValues[q & 7] * (q < 8 ? 1.0F : -1.0F);
    }
  }
  return x;
}

}  // namespace

TEST_CASE("blocks decode by the formulas of their layouts") {
  const std::pair<BlockFormat, std::vector<float> (*)(const Bytes&)> formulas[] = {
      {BlockFormat::Q4_0, q4_0},   {BlockFormat::Q5_1, q5_1},   {BlockFormat::Q2_K, q2_k},  {BlockFormat::Q3_K, q3_k},
      {BlockFormat::Q4_K, q4_k},   {BlockFormat::Q5_K, q5_k},   {BlockFormat::Q6_K, q6_k},  {BlockFormat::IQ4_XS, iq4_xs},
      {BlockFormat::TQ1_0, tq1_0}, {BlockFormat::TQ2_0, tq2_0}, {BlockFormat::NVFP4, nvfp4}};
  test::Random random(7);
  for (const auto& row : formulas)
    for (int round = 0; round < 20; ++round) {
      const BlockFormat f = row.first;
      Bytes block(static_cast<size_t>(block_bytes(f)));
      for (uint8_t& b : block) b = static_cast<uint8_t>(random.below(256));
      std::vector<float> got(static_cast<size_t>(block_elements(f)));
      decode_block(f, block, got);
      const auto expected = row.second(block);
      INFO(std::string(name(f)));
      for (size_t i = 0; i < got.size(); ++i)
        CHECK((got[i] == expected[i] || (std::isnan(got[i]) && std::isnan(expected[i])) ||
               std::fabs(got[i] - expected[i]) <= 1e-6f * std::fabs(expected[i])));
    }
}

TEST_CASE("encoding errs by about a step") {
  // A quant step is the range of a group over the number of quants; low-precision scales add to the error.
  const std::pair<BlockFormat, double> steps[] = {
      {BlockFormat::Q4_0, 0.13},  {BlockFormat::Q4_1, 0.07},   {BlockFormat::Q5_0, 0.065}, {BlockFormat::Q5_1, 0.035},
      {BlockFormat::Q8_0, 0.005}, {BlockFormat::Q2_K, 0.37},   {BlockFormat::Q3_K, 0.3},   {BlockFormat::Q4_K, 0.075},
      {BlockFormat::Q5_K, 0.04},  {BlockFormat::Q6_K, 0.04},   {BlockFormat::Q8_K, 0.005}, {BlockFormat::IQ4_NL, 0.1},
      {BlockFormat::MXFP4, 0.26}, {BlockFormat::IQ4_XS, 0.12}, {BlockFormat::TQ1_0, 0.51}, {BlockFormat::TQ2_0, 0.51},
      {BlockFormat::NVFP4, 0.19}};
  test::Random random(8);
  for (const auto& row : steps) {
    const BlockFormat f = row.first;
    const double step = row.second;
    for (int round = 0; round < 10; ++round) {
      const auto values = random.uniform_floats(static_cast<size_t>(block_elements(f)));
      Bytes block(static_cast<size_t>(block_bytes(f)));
      std::vector<float> back(values.size()), again(values.size());
      encode_block(f, values, block);
      decode_block(f, block, back);
      double worst = 0;
      for (size_t i = 0; i < values.size(); ++i) worst = std::max(worst, std::fabs(static_cast<double>(back[i] - values[i])));
      CHECK_MESSAGE(worst <= step, std::string(name(f)) << " errs by " << worst);
    }
    const std::vector<float> zeros(static_cast<size_t>(block_elements(f)));
    Bytes block(static_cast<size_t>(block_bytes(f)));
    std::vector<float> back(zeros.size(), 1);
    encode_block(f, zeros, block);
    decode_block(f, block, back);
    CHECK_MESSAGE(std::ranges::all_of(back, [](float v) { return v == 0; }), std::string(name(f)));
  }
}

TEST_CASE("names and sizes of block formats") {
  for (int k = 0; k < kBlockFormatCount; ++k)
    CHECK(block_format_from_name(name(static_cast<BlockFormat>(k))) == static_cast<BlockFormat>(k));
  CHECK_FALSE(block_format_from_name("q9"));
  CHECK(block_bytes(BlockFormat::Q8_K) == 292);
}
