#include <algorithm>
#include <array>
#include <bit>

#include "support/hash.h"

namespace rlxc {
namespace {

void sha1_block(std::array<uint32_t, 5>& state, const std::byte* data) {
  std::array<uint32_t, 80> w;
  for (size_t i = 0; i < 16; ++i) {
    w[i] = 0;
    for (size_t k = 0; k < 4; ++k) w[i] = w[i] << 8 | std::to_integer<uint32_t>(data[4 * i + k]);
  }
  for (size_t i = 16; i < 80; ++i) w[i] = std::rotl(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
  auto [a, b, c, d, e] = state;
  for (size_t i = 0; i < 80; ++i) {
    const uint32_t f = i < 20 ? (b & c) | (~b & d) : i < 40 ? b ^ c ^ d : i < 60 ? (b & c) | (b & d) | (c & d) : b ^ c ^ d;
    const uint32_t k = i < 20 ? 0x5a827999 : i < 40 ? 0x6ed9eba1 : i < 60 ? 0x8f1bbcdc : 0xca62c1d6;
    const uint32_t next = std::rotl(a, 5) + f + e + k + w[i];
    e = d;
    d = c;
    c = std::rotl(b, 30);
    b = a;
    a = next;
  }
  const std::array<uint32_t, 5> sum{a, b, c, d, e};
  for (size_t i = 0; i < 5; ++i) state[i] += sum[i];
}

}  // namespace

std::string sha1_hex(std::span<const std::byte> data) {
  std::array<uint32_t, 5> state{0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
  const uint64_t bit_count = uint64_t{8} * data.size();
  for (; data.size() >= 64; data = data.subspan(64)) sha1_block(state, data.data());
  std::array<std::byte, 128> end{};
  std::copy(data.begin(), data.end(), end.begin());
  end[data.size()] = std::byte{0x80};
  const size_t length = data.size() < 56 ? 64 : 128;
  for (size_t i = 0; i < 8; ++i) end[length - 1 - i] = static_cast<std::byte>(bit_count >> (8 * i));
  for (size_t at = 0; at < length; at += 64) sha1_block(state, end.data() + at);
  std::string hex;
  for (const uint32_t word : state)
    for (int shift = 28; shift >= 0; shift -= 4) hex += "0123456789abcdef"[word >> shift & 15];
  return hex;
}

}  // namespace rlxc
