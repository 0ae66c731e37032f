#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <math_constants.h>
#include <stdint.h>

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
__device__ inline float rlxc_reduce_add_f32x4(vec<float, 4> a) {
  for (int w = 4 / 2; w > 0; w /= 2)
    for (int i = 0; i < w; ++i) a[i] = a[i] + a[i + w];
  return a[0];
}

extern "C" __global__ void __launch_bounds__(128, 1) reduction(const float* __restrict__ x, float* __restrict__ y, int32_t n) {
  const int32_t i_x = blockIdx.x;
  const int32_t thread_id = threadIdx.x;
  alignas(16) __shared__ float partial[4];
  if (i_x < n) {
    const int32_t base = i_x * 70;
    float acc = 0.0f;
    if (thread_id < 70) {
      acc = acc + x[base + thread_id];
    }
    const float acc_at_2 = acc;
    const float other = __shfl_xor_sync(0xffffffffu, acc_at_2, 16);
    const float sum = acc_at_2 + other;
    const float other_2 = __shfl_xor_sync(0xffffffffu, sum, 8);
    const float sum_2 = sum + other_2;
    const float other_3 = __shfl_xor_sync(0xffffffffu, sum_2, 4);
    const float sum_3 = sum_2 + other_3;
    const float other_4 = __shfl_xor_sync(0xffffffffu, sum_3, 2);
    const float sum_4 = sum_3 + other_4;
    const float other_5 = __shfl_xor_sync(0xffffffffu, sum_4, 1);
    const float sum_5 = sum_4 + other_5;
    if ((thread_id % 32) == 0) {
      partial[thread_id / 32] = sum_5;
    }
    __syncthreads();
    const float all_v = rlxc_reduce_add_f32x4(*(const vec<float, 4>*)(partial + 0));
    __syncthreads();
    if (thread_id == 0) {
      y[i_x] = all_v / 70.0f;
    }
  }
}
