#include <hip/hip_bfloat16.h>
#include <hip/hip_fp16.h>
#include <hip/hip_runtime.h>
#include <stdint.h>


extern "C" __global__ void __launch_bounds__(256) elementwise(const float* __restrict__ x, const __half* __restrict__ s, const float* __restrict__ b, float* __restrict__ y, int32_t n) {
  const int32_t group_x = blockIdx.x;
  const int32_t thread_id = threadIdx.x;
  const int32_t t0 = n * 6;
  if (group_x < (t0 + 255) / 256) {
    const int32_t i = group_x * 256 + thread_id;
    if (i < t0) {
      const int32_t i0 = i / 6;
      const int32_t i1 = i % 6;
      const int32_t t1 = i0 * 6 + i1;
      const float x_v = x[t1];
      const float s_v = float(s[0]);
      const float b_v = b[i1];
      y[t1] = x_v / (1.0f + expf(-x_v)) * s_v + b_v;
    }
  }
}
