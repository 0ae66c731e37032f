#include <metal_stdlib>

using namespace metal;

inline float rlxc_reduce_add_f32x4(float4 a) {
  for (int w = 4 / 2; w > 0; w /= 2)
    for (int i = 0; i < w; ++i) a[i] = a[i] + a[i + w];
  return a[0];
}

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
    const float all_v = simd_sum(acc);
    if ((thread_id % 32) == 0) {
      partial[thread_id / 32] = all_v;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    const float all_v_2 = rlxc_reduce_add_f32x4(*(threadgroup const float4*)(partial + 0));
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (thread_id == 0) {
      y[i_x] = all_v_2 / 70.0f;
    }
  }
}
