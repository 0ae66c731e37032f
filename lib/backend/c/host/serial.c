#include <stdint.h>

void rlxc_use_threads(int threads);
void rlxc_use_threads(int threads) { (void)threads; }

void rlxc_parallel_for(int64_t count, int64_t grain, void (*body)(const void* args, int64_t begin, int64_t end), const void* args);
void rlxc_parallel_for(int64_t count, int64_t grain, void (*body)(const void* args, int64_t begin, int64_t end), const void* args) {
  (void)grain;
  if (count > 0) body(args, 0, count);
}
