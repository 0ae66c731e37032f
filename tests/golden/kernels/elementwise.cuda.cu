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
__device__ inline vec<float, 2> rlxc_exp_f32x2(vec<float, 2> a) {
  vec<float, 2> r;
  for (int i = 0; i < 2; ++i) r[i] = expf(a[i]);
  return r;
}

extern "C" __global__ void __launch_bounds__(256) elementwise(const float* __restrict__ x, const __half* __restrict__ s, const float* __restrict__ b, float* __restrict__ y, int32_t n) {
  const int32_t group_x = blockIdx.x;
  const int32_t thread_id = threadIdx.x;
  const int32_t t0 = n * 3;
  if (group_x < (t0 + 255) / 256) {
    const int32_t i = group_x * 256 + thread_id;
    if (i < t0) {
      const int32_t i0 = i / 3;
      const int32_t i1 = i % 3;
      const int32_t t1 = i1 * 2;
      const int32_t t2 = i0 * 6 + t1;
      const vec<float, 2> x_v = *(const vec<float, 2>*)(x + t2);
      const float s_v = float(s[0]);
      const vec<float, 2> b_v = *(const vec<float, 2>*)(b + t1);
      *(vec<float, 2>*)(y + t2) = x_v / (vec<float, 2>(1.0f) + rlxc_exp_f32x2(-x_v)) * vec<float, 2>(s_v) + b_v;
    }
  }
}
