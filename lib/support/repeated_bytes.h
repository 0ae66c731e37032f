// A block of bytes mapped repeatedly over a long address range, present in memory once. Replaces weights of many gigabytes where
// only their magnitude matters.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace rlxc {

constexpr uint64_t kRepeatGranule = 64 << 10;  // a multiple of the page size of all machines

// At least `size` read-only bytes that repeat `block`, whose size must be a multiple of kRepeatGranule. Null if the address space
// is exhausted or `block` is empty.
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
