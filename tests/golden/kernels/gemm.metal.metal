#include <metal_stdlib>

using namespace metal;

inline int rlxc_mod_i32(int a, int b) { return b == 0 || b == -1 ? 0 : (int)(a % b); }
inline float rlxc_max_f32(float a, float b) { return a > b || a != a ? a : b; }

kernel void gemm(device const float* a [[buffer(0)]], device const float* b [[buffer(1)]], device float* c [[buffer(2)]], constant int& n [[buffer(3)]], uint3 rlxc_group [[threadgroup_position_in_grid]], uint3 rlxc_thread [[thread_position_in_threadgroup]]) {
  const int tile_x = rlxc_group.x;
  const int thread_id = rlxc_thread.x;
  alignas(16) threadgroup float tile_a[1024];
  alignas(16) threadgroup float tile_b[256];
  const int t0 = (n + 63) / 64;
  if (tile_x < t0) {
    const int row0 = rlxc_mod_i32(tile_x, t0) * 64;
    const int x = thread_id % 16;
    const int y = thread_id / 16;
    float sum = 0.0f;
    float sum_2 = 0.0f;
    float sum_3 = 0.0f;
    float sum_4 = 0.0f;
    const int t4 = y * 4;
    for (int slice = 0; slice < 2; ++slice) {
      const int k0 = slice * 16;
      for (int e = 0; e < 4; ++e) {
        const int i = e * 256 + thread_id;
        const int p = i % 16;
        const int j = i / 16;
        float v = 0.0f;
        const int t1 = k0 + p;
        const int t2 = row0 + j;
        if ((t1 < 24) & (t2 < n)) {
          v = a[t2 * 24 + t1];
        }
        tile_a[p * 64 + j] = v;
      }
      const int p_2 = thread_id / 16;
      const int j_2 = thread_id % 16;
      float v_2 = 0.0f;
      const int t3 = k0 + p_2;
      if ((t3 < 24) & (j_2 < 10)) {
        v_2 = b[t3 * 10 + j_2];
      }
      tile_b[p_2 * 16 + j_2] = v_2;
      threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);
      for (int p_3 = 0; p_3 < 16; ++p_3) {
        const float4 tile_a_at = *(threadgroup const float4*)(tile_a + p_3 * 64 + t4);
        const float tile_b_at = tile_b[p_3 * 16 + x];
        sum = fma(tile_a_at[0], tile_b_at, sum);
        sum_2 = fma(tile_a_at[1], tile_b_at, sum_2);
        sum_3 = fma(tile_a_at[2], tile_b_at, sum_3);
        sum_4 = fma(tile_a_at[3], tile_b_at, sum_4);
      }
      threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);
    }
    const int row = row0 + t4;
    const bool t5 = x < 10;
    if (row < n) {
      if (t5) {
        c[row * 10 + x] = rlxc_max_f32(sum, 0.0f);
      }
    }
    const int row_2 = row0 + (t4 + 1);
    if (row_2 < n) {
      if (t5) {
        c[row_2 * 10 + x] = rlxc_max_f32(sum_2, 0.0f);
      }
    }
    const int row_3 = row0 + (t4 + 2);
    if (row_3 < n) {
      if (t5) {
        c[row_3 * 10 + x] = rlxc_max_f32(sum_3, 0.0f);
      }
    }
    const int row_4 = row0 + (t4 + 3);
    if (row_4 < n) {
      if (t5) {
        c[row_4 * 10 + x] = rlxc_max_f32(sum_4, 0.0f);
      }
    }
  }
}
