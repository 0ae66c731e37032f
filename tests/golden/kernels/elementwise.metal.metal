#include <metal_stdlib>

using namespace metal;


kernel void elementwise(device const float* x [[buffer(0)]], device const half* s [[buffer(1)]], device const float* b [[buffer(2)]], device float* y [[buffer(3)]], constant int& n [[buffer(4)]], uint3 rlxc_group [[threadgroup_position_in_grid]], uint3 rlxc_thread [[thread_position_in_threadgroup]]) {
  const int group_x = rlxc_group.x;
  const int thread_id = rlxc_thread.x;
  const int t0 = n * 6;
  if (group_x < (t0 + 255) / 256) {
    const int i = group_x * 256 + thread_id;
    if (i < t0) {
      const int i0 = i / 6;
      const int i1 = i % 6;
      const int t1 = i0 * 6 + i1;
      const float x_v = x[t1];
      const float s_v = float(s[0]);
      const float b_v = b[i1];
      y[t1] = x_v / (1.0f + exp(-x_v)) * s_v + b_v;
    }
  }
}
