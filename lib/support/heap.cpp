#include "support/heap.h"

#if __has_include(<malloc.h>)
#include <malloc.h>
#endif
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <system_error>
#include <thread>

namespace rlxc {
namespace {

constexpr size_t kReserved = 512 << 20, kHugePage = 2 << 20;
std::atomic<uintptr_t> reserved_end = 0;  // 0: nothing is reserved

uintptr_t address(void* p) { return reinterpret_cast<uintptr_t>(p); }

}  // namespace

void reserve_heap(bool is_limited) {
#ifdef __GLIBC__
  constexpr size_t kMoreThanFree = 256 << 10, kHeader = 32;
  mallopt(M_MMAP_THRESHOLD, 4 << 20);
  mallopt(M_TRIM_THRESHOLD, 2 * static_cast<int>(kReserved));
  if (is_limited) return;
  mallopt(M_TOP_PAD, static_cast<int>(kReserved));
  void* volatile block = std::malloc(kMoreThanFree);  // extends the heap, and writes a header behind itself
  mallopt(M_TOP_PAD, static_cast<int>(kHugePage));
  // A page that was touched before stays small: the heap goes on where the next large page begins.
  const uintptr_t begin = address(block);
  const uintptr_t huge = (begin + kMoreThanFree + 2 * kHeader) / kHugePage * kHugePage + kHugePage;
  const uintptr_t end = address(sbrk(0)) / kHugePage * kHugePage;
  std::free(block);
  if (huge >= end) return;
  block = std::malloc(huge - begin - kHeader);
  if (madvise(reinterpret_cast<void*>(huge), end - huge, MADV_HUGEPAGE) == 0) reserved_end = end;
#endif
}

void populate_heap(size_t bytes) {
#if defined(__GLIBC__) && defined(MADV_POPULATE_WRITE)
  constexpr size_t kLeast = 8 * kHugePage;  // less is cleared before a thread has begun
  bytes = std::min(bytes, kReserved / 2);
  const uintptr_t end = reserved_end;
  if (end == 0 || bytes < kLeast || std::thread::hardware_concurrency() < 2) return;
  void* volatile block = std::malloc(bytes);  // where the heap goes on
  const uintptr_t begin = (address(block) + kHugePage - 1) / kHugePage * kHugePage;
  std::free(block);
  const uintptr_t stop = std::min(begin + bytes, end);
  try {
    std::thread([begin, stop] {
      for (uintptr_t page = begin; page + kHugePage <= stop; page += kHugePage)
        if (madvise(reinterpret_cast<void*>(page), kHugePage, MADV_POPULATE_WRITE) != 0) return;
    }).detach();
  } catch (const std::system_error&) {  // pages are cleared as they are touched
  }
#endif
}

}  // namespace rlxc
