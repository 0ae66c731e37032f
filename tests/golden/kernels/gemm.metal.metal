#include <metal_stdlib>

using namespace metal;

inline int rlxc_mod_i32(int a, int b) { return b == 0 || b == -1 ? 0 : (int)(a % b); }
inline float rlxc_max_f32(float a, float b) { return a > b || a != a ? a : b; }
inline float2 rlxc_max_f32x2(float2 a, float2 b) {
  float2 r;
  for (int i = 0; i < 2; ++i) r[i] = rlxc_max_f32(a[i], b[i]);
  return r;
}

kernel void gemm(device const float* a [[buffer(0)]], device const float* b [[buffer(1)]], device float* c [[buffer(2)]], constant int& n [[buffer(3)]], uint3 rlxc_group [[threadgroup_position_in_grid]], uint3 rlxc_thread [[thread_position_in_threadgroup]]) {
  const int tile_x = rlxc_group.x;
  const int thread_id = rlxc_thread.x;
  alignas(16) threadgroup float tile_a[2176];
  alignas(16) threadgroup float tile_b[2048];
  const int t0 = (n + 63) / 64;
  if (tile_x < t0) {
    const int row0 = rlxc_mod_i32(tile_x, t0) * 64;
    const int x = thread_id % 16;
    const int y = thread_id / 16;
    alignas(16) float next_a[4];
    alignas(16) float next_b[4];
    float sum = 0.0f;
    float sum_2 = 0.0f;
    float sum_3 = 0.0f;
    float sum_4 = 0.0f;
    float sum_5 = 0.0f;
    float sum_6 = 0.0f;
    float sum_7 = 0.0f;
    float sum_8 = 0.0f;
    float sum_9 = 0.0f;
    float sum_10 = 0.0f;
    float sum_11 = 0.0f;
    float sum_12 = 0.0f;
    float sum_13 = 0.0f;
    float sum_14 = 0.0f;
    float sum_15 = 0.0f;
    float sum_16 = 0.0f;
    const int p = thread_id % 4 * 4;
    const int i = thread_id / 4;
    const int t1 = row0 + i;
    *(thread float4*)(next_a + 0) = ((t1 < n) ? *(device const float4*)(a + t1 * 24 + p) : float4(0.0f));
    const int p_2 = thread_id % 4 * 4;
    const int i_2 = thread_id / 4;
    const float4 next_a_at = *(thread const float4*)(next_a + 0);
    const int t2 = p_2 * 68;
    tile_a[t2 + i_2] = next_a_at[0];
    tile_a[t2 + 68 + i_2] = next_a_at[1];
    tile_a[t2 + 136 + i_2] = next_a_at[2];
    tile_a[t2 + 204 + i_2] = next_a_at[3];
    #pragma unroll
    for (int e_3 = 0; e_3 < 2; ++e_3) {
      const int block_3 = e_3 * 256 + thread_id;
      const int p_3 = block_3 / 32;
      const int i_3 = block_3 % 32 * 2;
      *(thread float2*)(next_b + e_3 * 2) = ((i_3 < 10) ? *(device const float2*)(b + p_3 * 10 + i_3) : float2(0.0f));
    }
    #pragma unroll
    for (int e_4 = 0; e_4 < 2; ++e_4) {
      const int block_4 = e_4 * 256 + thread_id;
      const int p_4 = block_4 / 32;
      const int i_4 = block_4 % 32 * 2;
      *(threadgroup float2*)(tile_b + p_4 * 64 + i_4) = *(thread const float2*)(next_b + e_4 * 2);
    }
    const int t7 = y * 4;
    const int t12 = x * 4;
    for (int slice = 0; slice < 2; ++slice) {
      threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);
      const int next = slice + 1;
      const int a_base = slice * 1088;
      const int b_base = slice * 1024;
      const int p_5 = thread_id % 4 * 4;
      const int i_5 = thread_id / 4;
      const int t3 = next * 16;
      const int t4 = t3 + p_5;
      const int t5 = row0 + i_5;
      *(thread float4*)(next_a + 0) = (((t5 < n) & (t4 < 24)) ? *(device const float4*)(a + t5 * 24 + t4) : float4(0.0f));
      #pragma unroll
      for (int e_6 = 0; e_6 < 2; ++e_6) {
        const int block_6 = e_6 * 256 + thread_id;
        const int p_6 = block_6 / 32;
        const int i_6 = block_6 % 32 * 2;
        const int t6 = t3 + p_6;
        *(thread float2*)(next_b + e_6 * 2) = (((i_6 < 10) & (t6 < 24)) ? *(device const float2*)(b + t6 * 10 + i_6) : float2(0.0f));
      }
      #pragma unroll
      for (int p_7 = 0; p_7 < 16; ++p_7) {
        const float4 tile_a_at = *(threadgroup const float4*)(tile_a + a_base + p_7 * 68 + t7);
        const float4 tile_b_at = *(threadgroup const float4*)(tile_b + b_base + p_7 * 64 + t12);
        const float t8 = tile_a_at[0];
        const float t13 = tile_b_at[0];
        sum = fma(t8, t13, sum);
        const float t14 = tile_b_at[1];
        sum_2 = fma(t8, t14, sum_2);
        const float t15 = tile_b_at[2];
        sum_3 = fma(t8, t15, sum_3);
        const float t16 = tile_b_at[3];
        sum_4 = fma(t8, t16, sum_4);
        const float t9 = tile_a_at[1];
        sum_5 = fma(t9, t13, sum_5);
        sum_6 = fma(t9, t14, sum_6);
        sum_7 = fma(t9, t15, sum_7);
        sum_8 = fma(t9, t16, sum_8);
        const float t10 = tile_a_at[2];
        sum_9 = fma(t10, t13, sum_9);
        sum_10 = fma(t10, t14, sum_10);
        sum_11 = fma(t10, t15, sum_11);
        sum_12 = fma(t10, t16, sum_12);
        const float t11 = tile_a_at[3];
        sum_13 = fma(t11, t13, sum_13);
        sum_14 = fma(t11, t14, sum_14);
        sum_15 = fma(t11, t15, sum_15);
        sum_16 = fma(t11, t16, sum_16);
      }
      const int p_8 = thread_id % 4 * 4;
      const int i_7 = thread_id / 4;
      const float4 next_a_at_2 = *(thread const float4*)(next_a + 0);
      const int t17 = next % 2;
      const int t18 = t17 * 1088;
      const int t19 = p_8 * 68;
      tile_a[t18 + t19 + i_7] = next_a_at_2[0];
      tile_a[t18 + (t19 + 68) + i_7] = next_a_at_2[1];
      tile_a[t18 + (t19 + 136) + i_7] = next_a_at_2[2];
      tile_a[t18 + (t19 + 204) + i_7] = next_a_at_2[3];
      #pragma unroll
      for (int e_8 = 0; e_8 < 2; ++e_8) {
        const int block_8 = e_8 * 256 + thread_id;
        const int p_9 = block_8 / 32;
        const int i_8 = block_8 % 32 * 2;
        *(threadgroup float2*)(tile_b + t17 * 1024 + p_9 * 64 + i_8) = *(thread const float2*)(next_b + e_8 * 2);
      }
    }
    const int row = row0 + t7;
    const int t21 = t12 + 2;
    if (row < n) {
      const int t20 = row * 10;
      if (t12 < 10) {
        alignas(16) float all_v[2];
        all_v[0] = sum;
        all_v[1] = sum_2;
        *(device float2*)(c + t20 + t12) = rlxc_max_f32x2(float2(0.0f), *(thread const float2*)(all_v + 0));
      }
      if (t21 < 10) {
        alignas(16) float all_v_2[2];
        all_v_2[0] = sum_3;
        all_v_2[1] = sum_4;
        *(device float2*)(c + t20 + t21) = rlxc_max_f32x2(float2(0.0f), *(thread const float2*)(all_v_2 + 0));
      }
    }
    const int row_2 = row0 + (t7 + 1);
    if (row_2 < n) {
      const int t22 = row_2 * 10;
      if (t12 < 10) {
        alignas(16) float all_v_3[2];
        all_v_3[0] = sum_5;
        all_v_3[1] = sum_6;
        *(device float2*)(c + t22 + t12) = rlxc_max_f32x2(float2(0.0f), *(thread const float2*)(all_v_3 + 0));
      }
      if (t21 < 10) {
        alignas(16) float all_v_4[2];
        all_v_4[0] = sum_7;
        all_v_4[1] = sum_8;
        *(device float2*)(c + t22 + t21) = rlxc_max_f32x2(float2(0.0f), *(thread const float2*)(all_v_4 + 0));
      }
    }
    const int row_3 = row0 + (t7 + 2);
    if (row_3 < n) {
      const int t23 = row_3 * 10;
      if (t12 < 10) {
        alignas(16) float all_v_5[2];
        all_v_5[0] = sum_9;
        all_v_5[1] = sum_10;
        *(device float2*)(c + t23 + t12) = rlxc_max_f32x2(float2(0.0f), *(thread const float2*)(all_v_5 + 0));
      }
      if (t21 < 10) {
        alignas(16) float all_v_6[2];
        all_v_6[0] = sum_11;
        all_v_6[1] = sum_12;
        *(device float2*)(c + t23 + t21) = rlxc_max_f32x2(float2(0.0f), *(thread const float2*)(all_v_6 + 0));
      }
    }
    const int row_4 = row0 + (t7 + 3);
    if (row_4 < n) {
      const int t24 = row_4 * 10;
      if (t12 < 10) {
        alignas(16) float all_v_7[2];
        all_v_7[0] = sum_13;
        all_v_7[1] = sum_14;
        *(device float2*)(c + t24 + t12) = rlxc_max_f32x2(float2(0.0f), *(thread const float2*)(all_v_7 + 0));
      }
      if (t21 < 10) {
        alignas(16) float all_v_8[2];
        all_v_8[0] = sum_15;
        all_v_8[1] = sum_16;
        *(device float2*)(c + t24 + t21) = rlxc_max_f32x2(float2(0.0f), *(thread const float2*)(all_v_8 + 0));
      }
    }
  }
}
