#include <metal_stdlib>

using namespace metal;


kernel void reduction(device const float* x [[buffer(0)]], device float* y [[buffer(1)]], constant int& n [[buffer(2)]], uint3 rlxc_group [[threadgroup_position_in_grid]], uint3 rlxc_thread [[thread_position_in_threadgroup]]) {
  const int i_x = rlxc_group.x;
  const int thread_id = rlxc_thread.x;
  alignas(16) threadgroup float partial[4];
  if (i_x < n) {
    const int base = i_x * 70;
    float acc = 0.0f;
    if (thread_id < 70) {
      acc = acc + x[base + thread_id];
    }
    const float acc_at_2 = acc;
    const float other = simd_shuffle_xor(acc_at_2, ushort(16));
    const float sum = acc_at_2 + other;
    const float other_2 = simd_shuffle_xor(sum, ushort(8));
    const float sum_2 = sum + other_2;
    const float other_3 = simd_shuffle_xor(sum_2, ushort(4));
    const float sum_3 = sum_2 + other_3;
    const float other_4 = simd_shuffle_xor(sum_3, ushort(2));
    const float sum_4 = sum_3 + other_4;
    const float other_5 = simd_shuffle_xor(sum_4, ushort(1));
    const float sum_5 = sum_4 + other_5;
    if ((thread_id % 32) == 0) {
      partial[thread_id / 32] = sum_5;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (thread_id < 2) {
      partial[thread_id] = partial[thread_id] + partial[thread_id + 2];
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (thread_id < 1) {
      partial[thread_id] = partial[thread_id] + partial[1];
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    const float partial_at_5 = partial[0];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (thread_id == 0) {
      y[i_x] = partial_at_5 / 70.0f;
    }
  }
}
