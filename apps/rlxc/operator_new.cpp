// Memory for objects. A compile allocates and frees some hundred thousand small blocks. malloc would take a tenth of the time for
// them, because its caches of a thread hold only seven blocks of a size. Large graphs and plans touch gigabytes. With pages of 4
// KiB the faults would take longer than the work.
#include <pthread.h>
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
namespace {

// Sizes of small blocks: 24, 40, 56... bytes fill blocks of malloc. Each is a block of malloc of its own, so that `delete`
// without a size may free it.
constexpr size_t kSizes = 16, kLeast = 24, kStep = 16, kMostKept = 64 << 10;  // bytes of each size
constexpr size_t kLargestSmall = kLeast + (kSizes - 1) * kStep;

size_t index_of(size_t size) { return size <= kLeast ? 0 : (size - kLeast + kStep - 1) / kStep; }
size_t size_of(size_t index) { return kLeast + index * kStep; }

struct Block {
  Block* next;
};
// The free blocks of a thread.
struct Cache {
  Block* first[kSizes];
  uint32_t count[kSizes];
  bool is_freed_at_exit;
};
constinit thread_local Cache cache{};

void free_all(void*) {
  for (Block*& first : cache.first)
    while (Block* const block = first) {
      first = block->next;
      std::free(block);
    }
  for (uint32_t& count : cache.count) count = 0;
}

// The first thread ends with the process.
void free_at_exit() {
  cache.is_freed_at_exit = true;
  if (gettid() == getpid()) return;
  static const pthread_key_t key = [] {
    pthread_key_t k{};
    pthread_key_create(&k, free_all);
    return k;
  }();
  pthread_setspecific(key, &cache);
}

}  // namespace

void* operator new(size_t size) {
  constexpr size_t kLarge = 8 << 20;
  if (size <= kLargestSmall) {
    const size_t i = index_of(size);
    if (Block* const block = cache.first[i]) {
      cache.first[i] = block->next;
      --cache.count[i];
      return block;
    }
    size = size_of(i);
  }
  void* block;
  while (!(block = std::malloc(size))) {
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
void operator delete(void* block, size_t size) noexcept {
  if (size > kLargestSmall || !block) return std::free(block);
  const size_t i = index_of(size);
  if (cache.count[i] >= kMostKept / size_of(i)) return std::free(block);
  if (!cache.is_freed_at_exit) free_at_exit();
  cache.first[i] = new (block) Block{cache.first[i]};
  ++cache.count[i];
}
#endif
