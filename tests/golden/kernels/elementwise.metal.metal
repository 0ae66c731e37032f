#include <metal_stdlib>

using namespace metal;


kernel void elementwise(device const float* x [[buffer(0)]], device const half* s [[buffer(1)]], device const float* b [[buffer(2)]], device float* y [[buffer(3)]], constant int& n [[buffer(4)]], uint3 rlxc_group [[threadgroup_position_in_grid]], uint3 rlxc_thread [[thread_position_in_threadgroup]]) {
  const int group_x = rlxc_group.x;
  const int thread_id = rlxc_thread.x;
  const int t0 = n * 3;
  if (group_x < (t0 + 255) / 256) {
    const int i = group_x * 256 + thread_id;
    if (i < t0) {
      const int i0 = i / 3;
      const int i1 = i % 3;
      const int t1 = i1 * 2;
      const int t2 = i0 * 6 + t1;
      const float2 x_v = *(device const float2*)(x + t2);
      const float s_v = float(s[0]);
      const float2 b_v = *(device const float2*)(b + t1);
      *(device float2*)(y + t2) = x_v / (float2(1.0f) + exp(-x_v)) * float2(s_v) + b_v;
    }
  }
}
