#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#pragma GCC diagnostic ignored "-Wpsabi"  // wide vectors are passed between static functions only
#pragma GCC diagnostic ignored "-Wunused-function"  // of halves of vectors, on processors with whole ones
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-predictive-commoning")  // registers hold sums: what it keeps for the next iteration goes to the stack
#if defined(__AVX512F__)
#pragma GCC target("tune=generic")  // tunings for Zen may read memory in every multiply-add of a tile
#elif defined(__FMA__)
#pragma GCC target("tune=skylake-avx512")  // others copy vectors of two registers by words, whose loads wait for the stores
#endif
#endif

void rlxc_parallel_for(int64_t count, int64_t grain, void (*body)(const void* args, int64_t begin, int64_t end), const void* args);

typedef float f32x16 __attribute__((vector_size(64)));
typedef float f32x16_u __attribute__((vector_size(64), aligned(4), may_alias));
static inline f32x16 rlxc_splat_f32x16(float s) { return s - (f32x16){0}; }
typedef int32_t i32x16 __attribute__((vector_size(64)));
typedef int32_t i32x16_u __attribute__((vector_size(64), aligned(4), may_alias));
typedef float f32x8 __attribute__((vector_size(32)));
typedef float f32x8_u __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t i32x8 __attribute__((vector_size(32)));
typedef int32_t i32x8_u __attribute__((vector_size(32), aligned(4), may_alias));
typedef float f32x4 __attribute__((vector_size(16)));
typedef float f32x4_u __attribute__((vector_size(16), aligned(4), may_alias));
typedef int32_t i32x4 __attribute__((vector_size(16)));
typedef int32_t i32x4_u __attribute__((vector_size(16), aligned(4), may_alias));
typedef float f32x2 __attribute__((vector_size(8)));
typedef float f32x2_u __attribute__((vector_size(8), aligned(4), may_alias));
typedef int32_t i32x2 __attribute__((vector_size(8)));
typedef int32_t i32x2_u __attribute__((vector_size(8), aligned(4), may_alias));
static inline float rlxc_reduce_add_f32x2(f32x2 a) { return (float)(a[0] + a[1]); }
static inline float rlxc_reduce_add_f32x4(f32x4 a) {
  f32x2 low, high;
#if defined(__clang__) || __GNUC__ >= 12
  low = __builtin_shufflevector(a, a, 0, 1);
  high = __builtin_shufflevector(a, a, 2, 3);
#else
  memcpy(&low, &a, sizeof low);
  memcpy(&high, (const char*)&a + sizeof low, sizeof high);
#endif
  return rlxc_reduce_add_f32x2(low + high);
}
static inline float rlxc_reduce_add_f32x8(f32x8 a) {
  f32x4 low, high;
#if defined(__clang__) || __GNUC__ >= 12
  low = __builtin_shufflevector(a, a, 0, 1, 2, 3);
  high = __builtin_shufflevector(a, a, 4, 5, 6, 7);
#else
  memcpy(&low, &a, sizeof low);
  memcpy(&high, (const char*)&a + sizeof low, sizeof high);
#endif
  return rlxc_reduce_add_f32x4(low + high);
}
static inline float rlxc_reduce_add_f32x16(f32x16 a) {
  f32x8 low, high;
#if defined(__clang__) || __GNUC__ >= 12
  low = __builtin_shufflevector(a, a, 0, 1, 2, 3, 4, 5, 6, 7);
  high = __builtin_shufflevector(a, a, 8, 9, 10, 11, 12, 13, 14, 15);
#else
  memcpy(&low, &a, sizeof low);
  memcpy(&high, (const char*)&a + sizeof low, sizeof high);
#endif
  return rlxc_reduce_add_f32x8(low + high);
}

struct reduction_0_args {
  const float* x;
  float* y;
};

static void reduction_0(const void* rlxc_data, int64_t rlxc_begin, int64_t rlxc_end) {
  const struct reduction_0_args* rlxc_args = rlxc_data;
  const float* restrict x = rlxc_args->x;
  float* restrict y = rlxc_args->y;
  for (int64_t i = rlxc_begin; i < rlxc_end; ++i) {
    const int64_t base = i * 70;
    f32x16 acc = rlxc_splat_f32x16(0.0f);
    f32x16 acc_2 = rlxc_splat_f32x16(0.0f);
    f32x16 acc_3 = rlxc_splat_f32x16(0.0f);
    f32x16 acc_4 = rlxc_splat_f32x16(0.0f);
    float rest = 0.0f;
    acc = acc + *(const f32x16_u*)(x + base);
    acc_2 = acc_2 + *(const f32x16_u*)(x + base + 16);
    acc_3 = acc_3 + *(const f32x16_u*)(x + base + 32);
    acc_4 = acc_4 + *(const f32x16_u*)(x + base + 48);
    for (int64_t t = 0; t < 6; ++t) {
      rest = rest + x[base + (64 + t)];
    }
    y[i] = (rlxc_reduce_add_f32x16(acc + acc_2 + acc_3 + acc_4) + rest) / 70.0f;
  }
}

void reduction(const float* restrict x, float* restrict y, int64_t n) {
  const struct reduction_0_args reduction_0_a = {x, y};
  rlxc_parallel_for(n, 936, reduction_0, &reduction_0_a);
}
