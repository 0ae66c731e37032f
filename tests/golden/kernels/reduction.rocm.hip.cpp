#include <hip/hip_bfloat16.h>
#include <hip/hip_fp16.h>
#include <hip/hip_runtime.h>
#include <stdint.h>


extern "C" __global__ void __launch_bounds__(128) reduction(const float* __restrict__ x, float* __restrict__ y, int32_t n) {
  const int32_t i_x = blockIdx.x;
  const int32_t thread_id = threadIdx.x;
  alignas(16) __shared__ float partial[2];
  if (i_x < n) {
    const int32_t base = i_x * 70;
    float acc = 0.0f;
    if (thread_id < 70) {
      acc = acc + x[base + thread_id];
    }
    const float acc_at_2 = acc;
    const float other = __shfl_xor(acc_at_2, 32);
    const float sum = acc_at_2 + other;
    const float other_2 = __shfl_xor(sum, 16);
    const float sum_2 = sum + other_2;
    const float other_3 = __shfl_xor(sum_2, 8);
    const float sum_3 = sum_2 + other_3;
    const float other_4 = __shfl_xor(sum_3, 4);
    const float sum_4 = sum_3 + other_4;
    const float other_5 = __shfl_xor(sum_4, 2);
    const float sum_5 = sum_4 + other_5;
    const float other_6 = __shfl_xor(sum_5, 1);
    const float sum_6 = sum_5 + other_6;
    if ((thread_id % 64) == 0) {
      partial[thread_id / 64] = sum_6;
    }
    __syncthreads();
    if (thread_id < 1) {
      partial[thread_id] = partial[thread_id] + partial[1];
    }
    __syncthreads();
    const float partial_at_3 = partial[0];
    __syncthreads();
    if (thread_id == 0) {
      y[i_x] = partial_at_3 / 70.0f;
    }
  }
}
