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

static inline int64_t rlxc_mod_i64(int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : (int64_t)(a % b); }
static inline int64_t rlxc_min_i64(int64_t a, int64_t b) { return a < b ? a : b; }
typedef float f32x16 __attribute__((vector_size(64)));
typedef float f32x16_u __attribute__((vector_size(64), aligned(4), may_alias));
static inline f32x16 rlxc_splat_f32x16(float s) { return s - (f32x16){0}; }
static inline float rlxc_max_f32(float a, float b) { return a > b || a != a ? a : b; }

struct gemm_0_args {
  const float* a;
  const float* b;
  float* c;
  int64_t n;
};

static void gemm_0(const void* rlxc_data, int64_t rlxc_begin, int64_t rlxc_end) {
  const struct gemm_0_args* rlxc_args = rlxc_data;
  const float* restrict a = rlxc_args->a;
  const float* restrict b = rlxc_args->b;
  float* restrict c = rlxc_args->c;
  const int64_t n = rlxc_args->n;
  const int64_t t0 = (n + 47) / 48;
  for (int64_t work = rlxc_begin; work < rlxc_end; ++work) {
    const int64_t block = rlxc_mod_i64(work, t0);
    const int64_t row0 = block * 48;
    const int64_t rows = rlxc_min_i64(n - row0, 48);
    float panel_b[1552] __attribute__((aligned(64)));
    for (int64_t p = 0; p < 24; ++p) {
      for (int64_t v = 0; v < 4; ++v) {
        *(f32x16_u*)(panel_b + p * 64 + v * 16) = rlxc_splat_f32x16(0.0f);
      }
    }
    for (int64_t p_2 = 0; p_2 < 24; ++p_2) {
      for (int64_t j = 0; j < 10; ++j) {
        panel_b[p_2 * 64 + j] = b[p_2 * 10 + j];
      }
    }
    const int64_t t1 = rows / 6;
    for (int64_t tile = 0; tile < t1; ++tile) {
      const int64_t row = tile * 6;
      f32x16 sum = rlxc_splat_f32x16(0.0f);
      f32x16 sum_2 = rlxc_splat_f32x16(0.0f);
      f32x16 sum_3 = rlxc_splat_f32x16(0.0f);
      f32x16 sum_4 = rlxc_splat_f32x16(0.0f);
      f32x16 sum_5 = rlxc_splat_f32x16(0.0f);
      f32x16 sum_6 = rlxc_splat_f32x16(0.0f);
      const int64_t t2 = row0 + row;
      for (int64_t p_3 = 0; p_3 < 24; ++p_3) {
        const f32x16 panel_b_at = *(const f32x16_u*)(panel_b + p_3 * 64);
        const int64_t t3 = t2 * 24;
        const float a_2 = a[t3 + p_3];
        sum = rlxc_splat_f32x16(a_2) * panel_b_at + sum;
        const float a_3 = a[t3 + 24 + p_3];
        sum_2 = rlxc_splat_f32x16(a_3) * panel_b_at + sum_2;
        const float a_4 = a[t3 + 48 + p_3];
        sum_3 = rlxc_splat_f32x16(a_4) * panel_b_at + sum_3;
        const float a_5 = a[t3 + 72 + p_3];
        sum_4 = rlxc_splat_f32x16(a_5) * panel_b_at + sum_4;
        const float a_6 = a[t3 + 96 + p_3];
        sum_5 = rlxc_splat_f32x16(a_6) * panel_b_at + sum_5;
        const float a_7 = a[t3 + 120 + p_3];
        sum_6 = rlxc_splat_f32x16(a_7) * panel_b_at + sum_6;
      }
      float line[384] __attribute__((aligned(64)));
      *(f32x16_u*)(line) = sum;
      *(f32x16_u*)(line + 64) = sum_2;
      *(f32x16_u*)(line + 128) = sum_3;
      *(f32x16_u*)(line + 192) = sum_4;
      *(f32x16_u*)(line + 256) = sum_5;
      *(f32x16_u*)(line + 320) = sum_6;
      for (int64_t r = 0; r < 6; ++r) {
        for (int64_t j_2 = 0; j_2 < 10; ++j_2) {
          c[(t2 + r) * 10 + j_2] = rlxc_max_f32(line[r * 64 + j_2], 0.0f);
        }
      }
    }
    const int64_t t4 = t1 * 6;
    const int64_t t5 = rows - t4;
    const int64_t odd = t5 / 4 % 2;
    if (odd != 0) {
      f32x16 sum_7 = rlxc_splat_f32x16(0.0f);
      f32x16 sum_8 = rlxc_splat_f32x16(0.0f);
      f32x16 sum_9 = rlxc_splat_f32x16(0.0f);
      f32x16 sum_10 = rlxc_splat_f32x16(0.0f);
      const int64_t t6 = row0 + t4;
      for (int64_t p_4 = 0; p_4 < 24; ++p_4) {
        const f32x16 panel_b_at_2 = *(const f32x16_u*)(panel_b + p_4 * 64);
        const int64_t t7 = t6 * 24;
        const float a_8 = a[t7 + p_4];
        sum_7 = rlxc_splat_f32x16(a_8) * panel_b_at_2 + sum_7;
        const float a_9 = a[t7 + 24 + p_4];
        sum_8 = rlxc_splat_f32x16(a_9) * panel_b_at_2 + sum_8;
        const float a_10 = a[t7 + 48 + p_4];
        sum_9 = rlxc_splat_f32x16(a_10) * panel_b_at_2 + sum_9;
        const float a_11 = a[t7 + 72 + p_4];
        sum_10 = rlxc_splat_f32x16(a_11) * panel_b_at_2 + sum_10;
      }
      float line_2[256] __attribute__((aligned(64)));
      *(f32x16_u*)(line_2) = sum_7;
      *(f32x16_u*)(line_2 + 64) = sum_8;
      *(f32x16_u*)(line_2 + 128) = sum_9;
      *(f32x16_u*)(line_2 + 192) = sum_10;
      for (int64_t r_2 = 0; r_2 < 4; ++r_2) {
        for (int64_t j_3 = 0; j_3 < 10; ++j_3) {
          c[(t6 + r_2) * 10 + j_3] = rlxc_max_f32(line_2[r_2 * 64 + j_3], 0.0f);
        }
      }
    }
    const int64_t odd_2 = t5 / 2 % 2;
    const int64_t t8 = t4 + odd * 4;
    if (odd_2 != 0) {
      f32x16 sum_11 = rlxc_splat_f32x16(0.0f);
      f32x16 sum_12 = rlxc_splat_f32x16(0.0f);
      const int64_t t9 = row0 + t8;
      for (int64_t p_5 = 0; p_5 < 24; ++p_5) {
        const f32x16 panel_b_at_3 = *(const f32x16_u*)(panel_b + p_5 * 64);
        const int64_t t10 = t9 * 24;
        const float a_12 = a[t10 + p_5];
        sum_11 = rlxc_splat_f32x16(a_12) * panel_b_at_3 + sum_11;
        const float a_13 = a[t10 + 24 + p_5];
        sum_12 = rlxc_splat_f32x16(a_13) * panel_b_at_3 + sum_12;
      }
      float line_3[128] __attribute__((aligned(64)));
      *(f32x16_u*)(line_3) = sum_11;
      *(f32x16_u*)(line_3 + 64) = sum_12;
      for (int64_t r_3 = 0; r_3 < 2; ++r_3) {
        for (int64_t j_4 = 0; j_4 < 10; ++j_4) {
          c[(t9 + r_3) * 10 + j_4] = rlxc_max_f32(line_3[r_3 * 64 + j_4], 0.0f);
        }
      }
    }
    const int64_t odd_3 = t5 % 2;
    if (odd_3 != 0) {
      f32x16 sum_13 = rlxc_splat_f32x16(0.0f);
      const int64_t t11 = row0 + (t8 + odd_2 * 2);
      for (int64_t p_6 = 0; p_6 < 24; ++p_6) {
        const float a_14 = a[t11 * 24 + p_6];
        sum_13 = rlxc_splat_f32x16(a_14) * *(const f32x16_u*)(panel_b + p_6 * 64) + sum_13;
      }
      float line_4[64] __attribute__((aligned(64)));
      *(f32x16_u*)(line_4) = sum_13;
      for (int64_t j_5 = 0; j_5 < 10; ++j_5) {
        c[t11 * 10 + j_5] = rlxc_max_f32(line_4[j_5], 0.0f);
      }
    }
  }
}

void gemm(const float* restrict a, const float* restrict b, float* restrict c, int64_t n) {
  const int64_t t0 = (n + 47) / 48;
  const struct gemm_0_args gemm_0_a = {a, b, c, n};
  rlxc_parallel_for(t0, 28, gemm_0, &gemm_0_a);
}
