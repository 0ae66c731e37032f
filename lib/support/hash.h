// Hash128: fingerprints of graphs and keys of caches; fast, not cryptographic. Sha256: what the manifest says of each file.
// SHA-1: checksums of files that ONNX models name. All depend on the bytes only, never on the machine or on how the bytes were
// cut into update() calls.
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
  std::string hex() const;  // 32 lower-case digits, `high` first
};

// MurmurHash3 x64 128 with seed 0 (Appleby, public domain), words little-endian. The hash of a stream of fields is only
// unambiguous if lengths are hashed too: update_text does so, update does not.
class Hash128 {
 public:
  void update(std::span<const std::byte>);
  void update_u64(uint64_t);
  void update_text(std::string_view s) { update_u64(s.size()), update(bytes_of(s)); }
  Digest128 digest() const;  // of everything so far; more may follow
  std::string hex() const { return digest().hex(); }

 private:
  void block(const std::byte*);

  uint64_t h1_ = 0, h2_ = 0, length_ = 0;
  std::array<std::byte, 16> tail_{};
};

// FIPS 180-4. Uses the SHA instructions of the processor where there are any.
class Sha256 {
 public:
  void update(std::span<const std::byte>);
  std::array<uint8_t, 32> digest() const;
  std::string hex() const;  // 64 lower-case digits

 private:
  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  uint64_t length_ = 0;
  std::array<std::byte, 64> tail_{};
};

std::string sha1_hex(std::span<const std::byte>);  // FIPS 180-4, 40 lower-case digits

namespace detail {
// Feeds `blocks` blocks of 64 bytes into the state. The portable form exists for other processors and for comparison in tests.
void sha256_blocks_portable(uint32_t* state, const std::byte* data, size_t blocks);
void sha256_blocks(uint32_t* state, const std::byte* data, size_t blocks);
}  // namespace detail

}  // namespace rlxc
