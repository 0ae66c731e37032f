#include "support/hash.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace rlxc {
namespace {

constexpr uint64_t kC1 = 0x87c37b91114253d5u, kC2 = 0x4cf5ad432745937fu;

uint64_t little_endian(uint64_t v) { return std::endian::native == std::endian::little ? v : __builtin_bswap64(v); }

uint64_t load_u64(const std::byte* p) {
  uint64_t v;
  std::memcpy(&v, p, sizeof v);
  return little_endian(v);
}

uint64_t finish_mix(uint64_t k) {
  k = (k ^ k >> 33) * 0xff51afd7ed558ccdu;
  k = (k ^ k >> 33) * 0xc4ceb9fe1a85ec53u;
  return k ^ k >> 33;
}

uint64_t mix1(uint64_t k) { return std::rotl(k * kC1, 31) * kC2; }
uint64_t mix2(uint64_t k) { return std::rotl(k * kC2, 33) * kC1; }

}  // namespace

std::string Digest128::hex() const {
  std::string out(32, '0');
  for (size_t i = 0; i < 32; ++i) out[i] = "0123456789abcdef"[(i < 16 ? high >> (60 - 4 * i) : low >> (124 - 4 * i)) & 15];
  return out;
}

void Hash128::block(const std::byte* p) {
  h1_ ^= mix1(load_u64(p));
  h1_ = (std::rotl(h1_, 27) + h2_) * 5 + 0x52dce729;
  h2_ ^= mix2(load_u64(p + 8));
  h2_ = (std::rotl(h2_, 31) + h1_) * 5 + 0x38495ab5;
}

void Hash128::update(std::span<const std::byte> data) {
  const size_t held = length_ % tail_.size();
  length_ += data.size();
  if (held != 0) {
    const size_t n = std::min(tail_.size() - held, data.size());
    std::copy_n(data.begin(), n, tail_.begin() + static_cast<std::ptrdiff_t>(held));
    if (held + n < tail_.size()) return;
    block(tail_.data());
    data = data.subspan(n);
  }
  for (; data.size() >= tail_.size(); data = data.subspan(tail_.size())) block(data.data());
  std::copy(data.begin(), data.end(), tail_.begin());
}

void Hash128::update_u64(uint64_t v) {
  v = little_endian(v);
  const size_t held = length_ % tail_.size();
  if (held > 8) return update(std::as_bytes(std::span(&v, 1)));
  std::memcpy(tail_.data() + held, &v, sizeof v);
  length_ += sizeof v;
  if (held == 8) block(tail_.data());
}

Digest128 Hash128::digest() const {
  const size_t held = length_ % tail_.size();
  std::array<std::byte, 16> last{};
  std::copy_n(tail_.begin(), held, last.begin());
  uint64_t h1 = h1_, h2 = h2_;
  if (held > 8) h2 ^= mix2(load_u64(last.data() + 8));
  if (held > 0) h1 ^= mix1(load_u64(last.data()));
  h1 ^= length_;
  h2 ^= length_;
  h1 += h2;
  h2 += h1;
  h1 = finish_mix(h1);
  h2 = finish_mix(h2);
  h1 += h2;
  h2 += h1;
  return {h1, h2};
}

}  // namespace rlxc
