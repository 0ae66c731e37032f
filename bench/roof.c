// What this machine can do at most, on one thread: multiply-adds in f32 with the vectors it has, bytes read and written between
// arrays that no cache holds, multiply-adds of 8-bit integers and of bf16 by dot products (0 where the processor has none), and
// bytes that are only read. Prints GFLOP/s, GB/s, Gop/s, GFLOP/s and GB/s, best of several runs.
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
  for (int i = 0; i < kSums; ++i) sum[i] = y * (float)(i + 1);  // equal sums would be computed once
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

// The rate of one instruction on twelve accumulators, which hide its latency; each does so many multiply-adds.
#define EACH(f) f(0) f(1) f(2) f(3) f(4) f(5) f(6) f(7) f(8) f(9) f(10) f(11)
#define SUM(i) vector s##i = x;
#define RATE(name, step, count)                               \
  static double name(void) {                                  \
    enum { kTimes = 2000000 };                                \
    vector x = {0};                                           \
    EACH(SUM)                                                 \
    const double start = seconds();                           \
    for (int n = 0; n < kTimes; ++n) {                        \
      EACH(step)                                              \
    }                                                         \
    return 2.0 * kTimes * 12 * (count) / (seconds() - start); \
  }
#if defined(__AVX512VNNI__)
#define INTEGERS(i) __asm__ volatile("vpdpbusd %1, %1, %0" : "+v"(s##i) : "v"(x));
RATE(integers, INTEGERS, kBytes)
#elif defined(__AVXVNNI__)
#define INTEGERS(i) __asm__ volatile("%{vex%} vpdpbusd %1, %1, %0" : "+x"(s##i) : "x"(x));
RATE(integers, INTEGERS, kBytes)
#else
static double integers(void) { return 0; }
#endif
#if defined(__AVX512BF16__)
#define HALVES(i) __asm__ volatile("vdpbf16ps %1, %1, %0" : "+v"(s##i) : "v"(x));
RATE(halves, HALVES, kBytes / 2)
#else
static double halves(void) { return 0; }
#endif

static double bytes(char* to, const char* from, size_t n) {
  const double start = seconds();
  memcpy(to, from, n);
  __asm__ volatile("" : : "r"(to) : "memory");
  return 2.0 * (double)n / (seconds() - start);
}

static double reads(const char* from, size_t n) {
  enum { kStreams = 4 };
  vector sum[kStreams] = {{0}};
  const size_t part = n / kStreams;
  const double start = seconds();
  for (size_t i = 0; i < part; i += 2 * kBytes)
    for (int s = 0; s < kStreams; ++s) {
      const vector* v = (const vector*)(from + (size_t)s * part + i);
      sum[s] += v[0] + v[1];
    }
  const double time = seconds() - start;
  volatile float sink = 0;
  for (int s = 0; s < kStreams; ++s) sink += sum[s][0];
  return (double)n / time;
}

int main(void) {
  const size_t n = (size_t)128 << 20;
  char *from = aligned_alloc(64, n), *to = aligned_alloc(64, n);
  if (!from || !to) return 1;
  memset(from, 1, n), memset(to, 2, n);
  double best[5] = {0};
  for (int i = 0; i < 10; ++i) {
    const double rates[5] = {flops(), bytes(to, from, n), integers(), halves(), reads(from, n)};
    for (int k = 0; k < 5; ++k) best[k] = rates[k] > best[k] ? rates[k] : best[k];
  }
  for (int k = 0; k < 5; ++k) printf("%.1f%c", best[k] / 1e9, k < 4 ? ' ' : '\n');
  return 0;
}
