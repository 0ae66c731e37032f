// What this machine can do at most, on one thread: multiply-adds in f32 with the vectors it has, and bytes read and written
// between arrays that no cache holds. Prints GFLOP/s and GB/s, best of several runs.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef __AVX512F__
enum { kBytes = 64, kSums = 24 };
#else
enum { kBytes = 32, kSums = 12 };
#endif
typedef float vector __attribute__((vector_size(kBytes)));

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double flops(void) {
  enum { kTimes = 1000000 };
  vector sum[kSums], x, y;
  for (unsigned i = 0; i < kBytes / 4; ++i) x[i] = 0.999f, y[i] = 1e-3f;
  for (int i = 0; i < kSums; ++i) sum[i] = y;
  const double start = seconds();
  for (int n = 0; n < kTimes; ++n) {
#pragma GCC unroll 24
    for (int i = 0; i < kSums; ++i) sum[i] = sum[i] * x + y;
  }
  const double time = seconds() - start;
  volatile float sink = 0;
  for (int i = 0; i < kSums; ++i) sink += sum[i][0];
  return 2.0 * kTimes * kSums * (kBytes / 4) / time;
}

static double bytes(char* to, const char* from, size_t n) {
  const double start = seconds();
  memcpy(to, from, n);
  return 2.0 * (double)n / (seconds() - start);
}

int main(void) {
  const size_t n = (size_t)128 << 20;
  char *from = malloc(n), *to = malloc(n);
  if (!from || !to) return 1;
  memset(from, 1, n), memset(to, 2, n);
  double best_flops = 0, best_bytes = 0;
  for (int i = 0; i < 10; ++i) {
    const double f = flops(), b = bytes(to, from, n);
    best_flops = f > best_flops ? f : best_flops, best_bytes = b > best_bytes ? b : best_bytes;
  }
  printf("%.1f %.1f\n", best_flops / 1e9, best_bytes / 1e9);
  return 0;
}
