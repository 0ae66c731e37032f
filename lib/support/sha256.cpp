#include <algorithm>
#include <bit>
#include <cstring>

#include "support/cpu_features.h"
#include "support/hash.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace rlxc {
namespace {

alignas(16) constexpr uint32_t kRound[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01,
    0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc,
    0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
    0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08,
    0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t load_big_endian(const std::byte* p) {
  return std::to_integer<uint32_t>(p[0]) << 24 | std::to_integer<uint32_t>(p[1]) << 16 | std::to_integer<uint32_t>(p[2]) << 8 |
         std::to_integer<uint32_t>(p[3]);
}

#if defined(__x86_64__)

// Intel SHA Extensions (Gulley et al. 2013): two rounds per instruction, with the state as ABEF and CDGH.
__attribute__((target("sha,sse4.1,ssse3"))) void sha256_blocks_x86(uint32_t* state, const std::byte* data, size_t blocks) {
  const __m128i byte_swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  auto* words = reinterpret_cast<__m128i*>(state);
  const __m128i cdab = _mm_shuffle_epi32(_mm_loadu_si128(words), 0xB1),
                efgh = _mm_shuffle_epi32(_mm_loadu_si128(words + 1), 0x1B);
  __m128i abef = _mm_alignr_epi8(cdab, efgh, 8), cdgh = _mm_blend_epi16(efgh, cdab, 0xF0);
  for (; blocks > 0; --blocks, data += 64) {
    const __m128i abef_before = abef, cdgh_before = cdgh;
    __m128i w[4];
    for (int i = 0; i < 4; ++i) w[i] = _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(data) + i), byte_swap);
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {
      __m128i& current = w[i & 3];
      if (i >= 4) {  // words 4i .. 4i+3 of the message schedule
        const __m128i last = w[(i + 3) & 3];
        const __m128i sum =
            _mm_add_epi32(_mm_sha256msg1_epu32(current, w[(i + 1) & 3]), _mm_alignr_epi8(last, w[(i + 2) & 3], 4));
        current = _mm_sha256msg2_epu32(sum, last);
      }
      const __m128i k = _mm_add_epi32(current, _mm_load_si128(reinterpret_cast<const __m128i*>(kRound) + i));
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, k);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(k, 0x0E));
    }
    abef = _mm_add_epi32(abef, abef_before);
    cdgh = _mm_add_epi32(cdgh, cdgh_before);
  }
  const __m128i feba = _mm_shuffle_epi32(abef, 0x1B), dchg = _mm_shuffle_epi32(cdgh, 0xB1);
  _mm_storeu_si128(words, _mm_blend_epi16(feba, dchg, 0xF0));
  _mm_storeu_si128(words + 1, _mm_alignr_epi8(dchg, feba, 8));
}

#endif

}  // namespace

namespace detail {

void sha256_blocks_portable(uint32_t* state, const std::byte* data, size_t blocks) {
  for (; blocks > 0; --blocks, data += 64) {
    uint32_t w[64];
    for (int i = 0; i < 16; ++i) w[i] = load_big_endian(data + 4 * i);
    for (int i = 16; i < 64; ++i) {
      const uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ w[i - 15] >> 3;
      const uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ w[i - 2] >> 10;
      w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3], e = state[4], f = state[5], g = state[6], h = state[7];
    for (int i = 0; i < 64; ++i) {
      const uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
      const uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kRound[i] + w[i];
      const uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
      const uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
      h = g;
      g = f;
      f = e;
      e = d + t1;
      d = c;
      c = b;
      b = a;
      a = t1 + t2;
    }
    const uint32_t add[8] = {a, b, c, d, e, f, g, h};
    for (int i = 0; i < 8; ++i) state[i] += add[i];
  }
}

void sha256_blocks(uint32_t* state, const std::byte* data, size_t blocks) {
#if defined(__x86_64__)
  static const bool fast = has_sha();
  if (fast) return sha256_blocks_x86(state, data, blocks);
#endif
  sha256_blocks_portable(state, data, blocks);
}

}  // namespace detail

void Sha256::update(std::span<const std::byte> data) {
  const size_t held = length_ % tail_.size();
  length_ += data.size();
  if (held != 0) {
    const size_t n = std::min(tail_.size() - held, data.size());
    std::copy_n(data.begin(), n, tail_.begin() + static_cast<std::ptrdiff_t>(held));
    if (held + n < tail_.size()) return;
    detail::sha256_blocks(state_.data(), tail_.data(), 1);
    data = data.subspan(n);
  }
  const size_t blocks = data.size() / tail_.size();
  detail::sha256_blocks(state_.data(), data.data(), blocks);
  data = data.subspan(blocks * tail_.size());
  std::copy(data.begin(), data.end(), tail_.begin());
}

std::array<uint8_t, 32> Sha256::digest() const {
  const size_t held = length_ % tail_.size();
  std::array<std::byte, 128> last{};
  std::copy_n(tail_.begin(), held, last.begin());
  last[held] = std::byte{0x80};
  const size_t blocks = held < 56 ? 1 : 2;
  for (size_t i = 0; i < 8; ++i) last[64 * blocks - 1 - i] = static_cast<std::byte>(length_ * 8 >> 8 * i);
  std::array<uint32_t, 8> state = state_;
  detail::sha256_blocks(state.data(), last.data(), blocks);
  std::array<uint8_t, 32> out;
  for (size_t i = 0; i < 32; ++i) out[i] = static_cast<uint8_t>(state[i / 4] >> (24 - 8 * (i % 4)));
  return out;
}

std::string Sha256::hex() const {
  std::string out;
  for (uint8_t byte : digest()) {
    out += "0123456789abcdef"[byte >> 4];
    out += "0123456789abcdef"[byte & 15];
  }
  return out;
}

}  // namespace rlxc
