// Large blocks in huge pages. A plan of millions of buffers or a graph of a million nodes touches gigabytes, and with pages of 4
// KiB the faults take longer than the work.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <new>

#if defined(__has_feature)
#define RLXC_HAS_FEATURE(x) __has_feature(x)
#else
#define RLXC_HAS_FEATURE(x) 0
#endif

#if defined(MADV_HUGEPAGE) && !defined(__SANITIZE_ADDRESS__) && !RLXC_HAS_FEATURE(address_sanitizer)
void* operator new(size_t size) {
  constexpr size_t kLarge = 8 << 20;
  void* block;
  while (!(block = std::malloc(size > 0 ? size : 1))) {
    const std::new_handler out_of_memory = std::get_new_handler();
    if (!out_of_memory) throw std::bad_alloc();
    out_of_memory();
  }
  if (size < kLarge) return block;
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(block) + page - 1) / page * page;
  madvise(reinterpret_cast<void*>(begin), reinterpret_cast<uintptr_t>(block) + size - begin, MADV_HUGEPAGE);
  return block;
}
void operator delete(void* block) noexcept { std::free(block); }
void operator delete(void* block, size_t) noexcept { std::free(block); }
#endif
