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

extern "C" __global__ void __launch_bounds__(256) gemm(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int32_t n) {
  const int32_t tile_x = blockIdx.x;
  const int32_t thread_id = threadIdx.x;
  alignas(16) __shared__ float tile_a[1024];
  alignas(16) __shared__ float tile_b[256];
  const int32_t t0 = (n + 63) / 64;
  if (tile_x < t0) {
    const int32_t row0 = rlxc_mod_i32(tile_x, t0) * 64;
    const int32_t x = thread_id % 16;
    const int32_t y = thread_id / 16;
    float sum = 0.0f;
    float sum_2 = 0.0f;
    float sum_3 = 0.0f;
    float sum_4 = 0.0f;
    const int32_t t4 = y * 4;
    for (int32_t slice = 0; slice < 2; ++slice) {
      const int32_t k0 = slice * 16;
      for (int32_t e = 0; e < 4; ++e) {
        const int32_t i = e * 256 + thread_id;
        const int32_t p = i % 16;
        const int32_t j = i / 16;
        float v = 0.0f;
        const int32_t t1 = k0 + p;
        const int32_t t2 = row0 + j;
        if ((t1 < 24) & (t2 < n)) {
          v = a[t2 * 24 + t1];
        }
        tile_a[p * 64 + j] = v;
      }
      const int32_t p_2 = thread_id / 16;
      const int32_t j_2 = thread_id % 16;
      float v_2 = 0.0f;
      const int32_t t3 = k0 + p_2;
      if ((t3 < 24) & (j_2 < 10)) {
        v_2 = b[t3 * 10 + j_2];
      }
      tile_b[p_2 * 16 + j_2] = v_2;
      __syncthreads();
      for (int32_t p_3 = 0; p_3 < 16; ++p_3) {
        const vec<float, 4> tile_a_at = *(const vec<float, 4>*)(tile_a + p_3 * 64 + t4);
        const float tile_b_at = tile_b[p_3 * 16 + x];
        sum = fmaf(tile_a_at[0], tile_b_at, sum);
        sum_2 = fmaf(tile_a_at[1], tile_b_at, sum_2);
        sum_3 = fmaf(tile_a_at[2], tile_b_at, sum_3);
        sum_4 = fmaf(tile_a_at[3], tile_b_at, sum_4);
      }
      __syncthreads();
    }
    const int32_t row = row0 + t4;
    const bool t5 = x < 10;
    if (row < n) {
      if (t5) {
        c[row * 10 + x] = rlxc_max_f32(sum, 0.0f);
      }
    }
    const int32_t row_2 = row0 + (t4 + 1);
    if (row_2 < n) {
      if (t5) {
        c[row_2 * 10 + x] = rlxc_max_f32(sum_2, 0.0f);
      }
    }
    const int32_t row_3 = row0 + (t4 + 2);
    if (row_3 < n) {
      if (t5) {
        c[row_3 * 10 + x] = rlxc_max_f32(sum_3, 0.0f);
      }
    }
    const int32_t row_4 = row0 + (t4 + 3);
    if (row_4 < n) {
      if (t5) {
        c[row_4 * 10 + x] = rlxc_max_f32(sum_4, 0.0f);
      }
    }
  }
}
