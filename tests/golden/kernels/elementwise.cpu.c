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

typedef float f32x4 __attribute__((vector_size(16)));
typedef float f32x4_u __attribute__((vector_size(16), aligned(4), may_alias));
static inline float rlxc_f32_from_f16(uint16_t h) {
  const uint32_t sign = (uint32_t)(h & 0x8000u) << 16, rest = h & 0x7fffu;
  uint32_t u = rest >= 0x7c00u ? 0x7f800000u | (rest & 0x3ffu) << 13 : (rest << 13) + 0x38000000u;
  float f;
  if (rest < 0x400u) {
    f = (float)rest * 0x1p-24f;
    memcpy(&u, &f, sizeof u);
  }
  u |= sign;
  memcpy(&f, &u, sizeof f);
  return f;
}
typedef int32_t i32x4 __attribute__((vector_size(16)));
typedef int32_t i32x4_u __attribute__((vector_size(16), aligned(4), may_alias));
static inline f32x4 rlxc_max_f32x4(f32x4 a, f32x4 b) {
#if defined(__AVX__)
  __asm__("vmaxps %0, %1, %0" : "+x"(b) : "x"(a));
  return (f32x4)((i32x4)b | (a != a));
#else
  const i32x4 m = (a > b) | (a != a);
  return (f32x4)(((i32x4)a & m) | ((i32x4)b & ~m));
#endif
}
static inline f32x4 rlxc_splat_f32x4(float s) { return s - (f32x4){0}; }
static inline f32x4 rlxc_min_f32x4(f32x4 a, f32x4 b) {
#if defined(__AVX__)
  __asm__("vminps %0, %1, %0" : "+x"(b) : "x"(a));
  return (f32x4)((i32x4)b | (a != a));
#else
  const i32x4 m = (a < b) | (a != a);
  return (f32x4)(((i32x4)a & m) | ((i32x4)b & ~m));
#endif
}
static inline f32x4 rlxc_exp_f32x4(f32x4 x) {
  const f32x4 t0 = rlxc_max_f32x4(rlxc_splat_f32x4(-104.0f), rlxc_min_f32x4(rlxc_splat_f32x4(90.0f), x));
  const f32x4 t1 = t0 * rlxc_splat_f32x4(0.7213475f) + rlxc_splat_f32x4(12583039.0f);
  const f32x4 t2 = t1 - 12583039.0f;
  const f32x4 t3 = t2 * rlxc_splat_f32x4(0.00042438888f) + (t2 * rlxc_splat_f32x4(-1.3867188f) + t0);
  const f32x4 t4 = ((((((rlxc_splat_f32x4(2.1584647e-05f) * t3 + rlxc_splat_f32x4(0.0002615288f)) * t3 + rlxc_splat_f32x4(0.0026042755f)) * t3 + rlxc_splat_f32x4(0.02083315f)) * t3 + rlxc_splat_f32x4(0.124999985f)) * t3 + rlxc_splat_f32x4(0.5f)) * t3 + rlxc_splat_f32x4(1.0f)) * ((f32x4)(((i32x4)(t1)) << 23));
  return t4 * t4;
}

struct elementwise_0_args {
  const float* x;
  const uint16_t* s;
  const float* b;
  float* y;
};

static void elementwise_0(const void* rlxc_data, int64_t rlxc_begin, int64_t rlxc_end) {
  const struct elementwise_0_args* rlxc_args = rlxc_data;
  const float* restrict x = rlxc_args->x;
  const uint16_t* restrict s = rlxc_args->s;
  const float* restrict b = rlxc_args->b;
  float* restrict y = rlxc_args->y;
  for (int64_t row = rlxc_begin; row < rlxc_end; ++row) {
    const int64_t t0 = row * 6;
    const f32x4 x_v = *(const f32x4_u*)(x + t0);
    const float s_v = rlxc_f32_from_f16(s[0]);
    const f32x4 b_v = *(const f32x4_u*)(b);
    *(f32x4_u*)(y + t0) = x_v / (1.0f + rlxc_exp_f32x4(-x_v)) * rlxc_splat_f32x4(s_v) + b_v;
    for (int64_t t = 0; t < 2; ++t) {
      const int64_t t1 = 4 + t;
      const int64_t t2 = t0 + t1;
      const float x_v_2 = x[t2];
      const float b_v_2 = b[t1];
      y[t2] = x_v_2 / (1.0f + expf(-x_v_2)) * s_v + b_v_2;
    }
  }
}

void elementwise(const float* restrict x, const uint16_t* restrict s, const float* restrict b, float* restrict y, int64_t n) {
  const struct elementwise_0_args elementwise_0_a = {x, s, b, y};
  rlxc_parallel_for(n, 3120, elementwise_0, &elementwise_0_a);
}
