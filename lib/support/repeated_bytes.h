// A block of bytes that is read again and again along a long range of addresses, and lies in memory once: stands in for weights
// of many gigabytes where only their order of magnitude matters.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace rlxc {

constexpr uint64_t kRepeatGranule = 64 << 10;  // a multiple of the page size of every machine

// At least `size` bytes that repeat `block`, whose size is a multiple of kRepeatGranule, read-only. Null if the system has no
// addresses left, or if `block` is empty.
class RepeatedBytes {
 public:
  static std::shared_ptr<const RepeatedBytes> make(std::span<const std::byte> block, uint64_t size);
  ~RepeatedBytes();
  RepeatedBytes(const RepeatedBytes&) = delete;
  RepeatedBytes& operator=(const RepeatedBytes&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  explicit RepeatedBytes(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::span<const std::byte> bytes_;
};

}  // namespace rlxc
