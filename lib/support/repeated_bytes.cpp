#include "support/repeated_bytes.h"

#include <sys/mman.h>

#include <cstdio>

namespace rlxc {

std::shared_ptr<const RepeatedBytes> RepeatedBytes::make(std::span<const std::byte> block, uint64_t size) {
  const uint64_t times = block.empty() ? 0 : (size + block.size() - 1) / block.size();
  if (times == 0 || block.size() % kRepeatGranule != 0) return nullptr;
  struct Close {
    void operator()(std::FILE* f) const { std::fclose(f); }
  };
  const std::unique_ptr<std::FILE, Close> file(std::tmpfile());  // unnamed, freed with the last mapping
  if (!file || std::fwrite(block.data(), 1, block.size(), file.get()) != block.size() || std::fflush(file.get()) != 0)
    return nullptr;
  void* at = ::mmap(nullptr, times * block.size(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return nullptr;
  auto* first = static_cast<std::byte*>(at);
  std::shared_ptr<const RepeatedBytes> all(new RepeatedBytes({first, times * block.size()}));
  for (uint64_t i = 0; i < times; ++i)
    if (::mmap(first + i * block.size(), block.size(), PROT_READ, MAP_SHARED | MAP_FIXED, fileno(file.get()), 0) == MAP_FAILED)
      return nullptr;
  return all;
}

RepeatedBytes::~RepeatedBytes() { ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size()); }

}  // namespace rlxc
