// Hash128: fingerprints and cache keys; fast, not cryptographic. Sha256: file digests of the manifest. SHA-1: checksums in ONNX
// models. The results depend on the bytes only, not on the machine or on the split into update() calls.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace rlxc {

inline std::span<const std::byte> bytes_of(std::string_view s) { return std::as_bytes(std::span(s.data(), s.size())); }

struct Digest128 {
  uint64_t high = 0, low = 0;
  bool operator==(const Digest128&) const = default;
  std::string hex() const;  // 32 lower-case hex digits, `high` first
};

// MurmurHash3 x64 128 with seed 0 (Appleby, public domain), words little-endian. A stream of fields is unambiguous only if
// lengths are hashed too: update_text does that, update does not.
class Hash128 {
 public:
  void update(std::span<const std::byte>);
  void update_u64(uint64_t);
  void update_text(std::string_view s) { update_u64(s.size()), update(bytes_of(s)); }
  Digest128 digest() const;  // of all bytes so far; updates may follow
  std::string hex() const { return digest().hex(); }

 private:
  void block(const std::byte*);

  uint64_t h1_ = 0, h2_ = 0, length_ = 0;
  std::array<std::byte, 16> tail_{};
};

// FIPS 180-4. Uses the SHA instructions of the CPU if available.
class Sha256 {
 public:
  void update(std::span<const std::byte>);
  std::array<uint8_t, 32> digest() const;
  std::string hex() const;  // 64 lower-case hex digits

 private:
  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  uint64_t length_ = 0;
  std::array<std::byte, 64> tail_{};
};

std::string sha1_hex(std::span<const std::byte>);  // FIPS 180-4, 40 lower-case hex digits

namespace detail {
// Hashes `blocks` blocks of 64 bytes into the state. The portable form is for other CPUs, and for comparison in tests.
void sha256_blocks_portable(uint32_t* state, const std::byte* data, size_t blocks);
void sha256_blocks(uint32_t* state, const std::byte* data, size_t blocks);
}  // namespace detail

}  // namespace rlxc
