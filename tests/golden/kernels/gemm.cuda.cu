#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <math_constants.h>
#include <stdint.h>

__device__ inline int32_t rlxc_mod_i32(int32_t a, int32_t b) { return b == 0 || b == -1 ? 0 : (int32_t)(a % b); }
template <class T, int N>
struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) vec {
  T at[N];
  vec() = default;
  __device__ explicit vec(T s) {
    for (int i = 0; i < N; ++i) at[i] = s;
  }
  __device__ T& operator[](int i) { return at[i]; }
  __device__ const T& operator[](int i) const { return at[i]; }
};
#define RLXC_VECTOR_OPERATOR(op)                                                     \
  template <class T, int N>                                                          \
  __device__ inline auto operator op(const vec<T, N>& a, const vec<T, N>& b) {       \
    vec<decltype(a[0] op b[0]), N> r;                                                \
    for (int i = 0; i < N; ++i) r[i] = a[i] op b[i];                                 \
    return r;                                                                        \
  }
RLXC_VECTOR_OPERATOR(+)
RLXC_VECTOR_OPERATOR(-)
RLXC_VECTOR_OPERATOR(*)
RLXC_VECTOR_OPERATOR(/)
RLXC_VECTOR_OPERATOR(&)
RLXC_VECTOR_OPERATOR(|)
RLXC_VECTOR_OPERATOR(^)
RLXC_VECTOR_OPERATOR(<)
RLXC_VECTOR_OPERATOR(<=)
RLXC_VECTOR_OPERATOR(==)
RLXC_VECTOR_OPERATOR(!=)
template <class T, int N>
__device__ inline vec<T, N> operator-(vec<T, N> a) {
  for (int i = 0; i < N; ++i) a[i] = -a[i];
  return a;
}
__device__ inline float rlxc_max_f32(float a, float b) { return a > b || a != a ? a : b; }
__device__ inline vec<float, 2> rlxc_max_f32x2(vec<float, 2> a, vec<float, 2> b) {
  vec<float, 2> r;
  for (int i = 0; i < 2; ++i) r[i] = rlxc_max_f32(a[i], b[i]);
  return r;
}

extern "C" __global__ void __launch_bounds__(256, 2) gemm(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int32_t n) {
  const int32_t tile_x = blockIdx.x;
  const int32_t thread_id = threadIdx.x;
  alignas(16) __shared__ float tile_a[2176];
  alignas(16) __shared__ float tile_b[2048];
  const int32_t t0 = (n + 63) / 64;
  if (tile_x < t0) {
    const int32_t row0 = rlxc_mod_i32(tile_x, t0) * 64;
    const int32_t x = thread_id % 16;
    const int32_t y = thread_id / 16;
    alignas(16) float next_a[4];
    alignas(16) float next_b[4];
    float sum = 0.0f;
    float sum_2 = 0.0f;
    float sum_3 = 0.0f;
    float sum_4 = 0.0f;
    float sum_5 = 0.0f;
    float sum_6 = 0.0f;
    float sum_7 = 0.0f;
    float sum_8 = 0.0f;
    float sum_9 = 0.0f;
    float sum_10 = 0.0f;
    float sum_11 = 0.0f;
    float sum_12 = 0.0f;
    float sum_13 = 0.0f;
    float sum_14 = 0.0f;
    float sum_15 = 0.0f;
    float sum_16 = 0.0f;
    const int32_t p = thread_id % 4 * 4;
    const int32_t i = thread_id / 4;
    const int32_t t1 = row0 + i;
    *(vec<float, 4>*)(next_a + 0) = ((t1 < n) ? *(const vec<float, 4>*)(a + t1 * 24 + p) : vec<float, 4>(0.0f));
    const int32_t p_2 = thread_id % 4 * 4;
    const int32_t i_2 = thread_id / 4;
    const vec<float, 4> next_a_at = *(const vec<float, 4>*)(next_a + 0);
    const int32_t t2 = p_2 * 68;
    tile_a[t2 + i_2] = next_a_at[0];
    tile_a[t2 + 68 + i_2] = next_a_at[1];
    tile_a[t2 + 136 + i_2] = next_a_at[2];
    tile_a[t2 + 204 + i_2] = next_a_at[3];
    #pragma unroll
    for (int32_t e_3 = 0; e_3 < 2; ++e_3) {
      const int32_t block_3 = e_3 * 256 + thread_id;
      const int32_t p_3 = block_3 / 32;
      const int32_t i_3 = block_3 % 32 * 2;
      *(vec<float, 2>*)(next_b + e_3 * 2) = ((i_3 < 10) ? *(const vec<float, 2>*)(b + p_3 * 10 + i_3) : vec<float, 2>(0.0f));
    }
    #pragma unroll
    for (int32_t e_4 = 0; e_4 < 2; ++e_4) {
      const int32_t block_4 = e_4 * 256 + thread_id;
      const int32_t p_4 = block_4 / 32;
      const int32_t i_4 = block_4 % 32 * 2;
      *(vec<float, 2>*)(tile_b + p_4 * 64 + i_4) = *(const vec<float, 2>*)(next_b + e_4 * 2);
    }
    const int32_t t7 = y * 4;
    const int32_t t12 = x * 4;
    for (int32_t slice = 0; slice < 2; ++slice) {
      __syncthreads();
      const int32_t next = slice + 1;
      const int32_t a_base = slice * 1088;
      const int32_t b_base = slice * 1024;
      const int32_t p_5 = thread_id % 4 * 4;
      const int32_t i_5 = thread_id / 4;
      const int32_t t3 = next * 16;
      const int32_t t4 = t3 + p_5;
      const int32_t t5 = row0 + i_5;
      *(vec<float, 4>*)(next_a + 0) = (((t5 < n) & (t4 < 24)) ? *(const vec<float, 4>*)(a + t5 * 24 + t4) : vec<float, 4>(0.0f));
      #pragma unroll
      for (int32_t e_6 = 0; e_6 < 2; ++e_6) {
        const int32_t block_6 = e_6 * 256 + thread_id;
        const int32_t p_6 = block_6 / 32;
        const int32_t i_6 = block_6 % 32 * 2;
        const int32_t t6 = t3 + p_6;
        *(vec<float, 2>*)(next_b + e_6 * 2) = (((i_6 < 10) & (t6 < 24)) ? *(const vec<float, 2>*)(b + t6 * 10 + i_6) : vec<float, 2>(0.0f));
      }
      #pragma unroll
      for (int32_t p_7 = 0; p_7 < 16; ++p_7) {
        const vec<float, 4> tile_a_at = *(const vec<float, 4>*)(tile_a + a_base + (p_7 * 68 + t7));
        const vec<float, 4> tile_b_at = *(const vec<float, 4>*)(tile_b + b_base + (p_7 * 64 + t12));
        const float t8 = tile_a_at[0];
        const float t13 = tile_b_at[0];
        sum = fmaf(t8, t13, sum);
        const float t14 = tile_b_at[1];
        sum_2 = fmaf(t8, t14, sum_2);
        const float t15 = tile_b_at[2];
        sum_3 = fmaf(t8, t15, sum_3);
        const float t16 = tile_b_at[3];
        sum_4 = fmaf(t8, t16, sum_4);
        const float t9 = tile_a_at[1];
        sum_5 = fmaf(t9, t13, sum_5);
        sum_6 = fmaf(t9, t14, sum_6);
        sum_7 = fmaf(t9, t15, sum_7);
        sum_8 = fmaf(t9, t16, sum_8);
        const float t10 = tile_a_at[2];
        sum_9 = fmaf(t10, t13, sum_9);
        sum_10 = fmaf(t10, t14, sum_10);
        sum_11 = fmaf(t10, t15, sum_11);
        sum_12 = fmaf(t10, t16, sum_12);
        const float t11 = tile_a_at[3];
        sum_13 = fmaf(t11, t13, sum_13);
        sum_14 = fmaf(t11, t14, sum_14);
        sum_15 = fmaf(t11, t15, sum_15);
        sum_16 = fmaf(t11, t16, sum_16);
      }
      const int32_t p_8 = thread_id % 4 * 4;
      const int32_t i_7 = thread_id / 4;
      const vec<float, 4> next_a_at_2 = *(const vec<float, 4>*)(next_a + 0);
      const int32_t t17 = next % 2;
      const int32_t t18 = t17 * 1088;
      const int32_t t19 = p_8 * 68;
      tile_a[t18 + (t19 + i_7)] = next_a_at_2[0];
      tile_a[t18 + (t19 + 68 + i_7)] = next_a_at_2[1];
      tile_a[t18 + (t19 + 136 + i_7)] = next_a_at_2[2];
      tile_a[t18 + (t19 + 204 + i_7)] = next_a_at_2[3];
      #pragma unroll
      for (int32_t e_8 = 0; e_8 < 2; ++e_8) {
        const int32_t block_8 = e_8 * 256 + thread_id;
        const int32_t p_9 = block_8 / 32;
        const int32_t i_8 = block_8 % 32 * 2;
        *(vec<float, 2>*)(tile_b + t17 * 1024 + (p_9 * 64 + i_8)) = *(const vec<float, 2>*)(next_b + e_8 * 2);
      }
    }
    const int32_t row = row0 + t7;
    const int32_t t21 = t12 + 2;
    if (row < n) {
      const int32_t t20 = row * 10;
      if (t12 < 10) {
        alignas(16) float all_v[2];
        all_v[0] = sum;
        all_v[1] = sum_2;
        *(vec<float, 2>*)(c + t20 + t12) = rlxc_max_f32x2(vec<float, 2>(0.0f), *(const vec<float, 2>*)(all_v + 0));
      }
      if (t21 < 10) {
        alignas(16) float all_v_2[2];
        all_v_2[0] = sum_3;
        all_v_2[1] = sum_4;
        *(vec<float, 2>*)(c + t20 + t21) = rlxc_max_f32x2(vec<float, 2>(0.0f), *(const vec<float, 2>*)(all_v_2 + 0));
      }
    }
    const int32_t row_2 = row0 + (t7 + 1);
    if (row_2 < n) {
      const int32_t t22 = row_2 * 10;
      if (t12 < 10) {
        alignas(16) float all_v_3[2];
        all_v_3[0] = sum_5;
        all_v_3[1] = sum_6;
        *(vec<float, 2>*)(c + t22 + t12) = rlxc_max_f32x2(vec<float, 2>(0.0f), *(const vec<float, 2>*)(all_v_3 + 0));
      }
      if (t21 < 10) {
        alignas(16) float all_v_4[2];
        all_v_4[0] = sum_7;
        all_v_4[1] = sum_8;
        *(vec<float, 2>*)(c + t22 + t21) = rlxc_max_f32x2(vec<float, 2>(0.0f), *(const vec<float, 2>*)(all_v_4 + 0));
      }
    }
    const int32_t row_3 = row0 + (t7 + 2);
    if (row_3 < n) {
      const int32_t t23 = row_3 * 10;
      if (t12 < 10) {
        alignas(16) float all_v_5[2];
        all_v_5[0] = sum_9;
        all_v_5[1] = sum_10;
        *(vec<float, 2>*)(c + t23 + t12) = rlxc_max_f32x2(vec<float, 2>(0.0f), *(const vec<float, 2>*)(all_v_5 + 0));
      }
      if (t21 < 10) {
        alignas(16) float all_v_6[2];
        all_v_6[0] = sum_11;
        all_v_6[1] = sum_12;
        *(vec<float, 2>*)(c + t23 + t21) = rlxc_max_f32x2(vec<float, 2>(0.0f), *(const vec<float, 2>*)(all_v_6 + 0));
      }
    }
    const int32_t row_4 = row0 + (t7 + 3);
    if (row_4 < n) {
      const int32_t t24 = row_4 * 10;
      if (t12 < 10) {
        alignas(16) float all_v_7[2];
        all_v_7[0] = sum_13;
        all_v_7[1] = sum_14;
        *(vec<float, 2>*)(c + t24 + t12) = rlxc_max_f32x2(vec<float, 2>(0.0f), *(const vec<float, 2>*)(all_v_7 + 0));
      }
      if (t21 < 10) {
        alignas(16) float all_v_8[2];
        all_v_8[0] = sum_15;
        all_v_8[1] = sum_16;
        *(vec<float, 2>*)(c + t24 + t21) = rlxc_max_f32x2(vec<float, 2>(0.0f), *(const vec<float, 2>*)(all_v_8 + 0));
      }
    }
  }
}
