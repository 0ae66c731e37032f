#include <metal_stdlib>

using namespace metal;

inline int rlxc_mod_i32(int a, int b) { return b == 0 || b == -1 ? 0 : (int)(a % b); }
inline int rlxc_min_i32(int a, int b) { return a < b ? a : b; }
inline int rlxc_div_i32(int a, int b) { return b == 0 ? 0 : b == -1 ? (int)(0 - a) : (int)(a / b); }
inline float2 rlxc_multiply_f32(float2 a, float2 b, float2 c) {
  simdgroup_matrix<float, 8, 8> x, y;
  simdgroup_matrix<float, 8, 8> z;
  reinterpret_cast<thread float2&>(x.thread_elements()) = a;
  reinterpret_cast<thread float2&>(y.thread_elements()) = b;
  reinterpret_cast<thread float2&>(z.thread_elements()) = c;
  simdgroup_multiply_accumulate(z, x, y, z);
  return reinterpret_cast<thread float2&>(z.thread_elements());
}
inline float rlxc_max_f32(float a, float b) { return a > b || a != a ? a : b; }
inline float2 rlxc_max_f32x2(float2 a, float2 b) {
  float2 r;
  for (int i = 0; i < 2; ++i) r[i] = rlxc_max_f32(a[i], b[i]);
  return r;
}

kernel void gemm(device const float* a [[buffer(0)]], device const float* b [[buffer(1)]], device float* c [[buffer(2)]], constant int& n [[buffer(3)]], uint3 rlxc_group [[threadgroup_position_in_grid]], uint3 rlxc_thread [[thread_position_in_threadgroup]]) {
  const int tile_x = rlxc_group.x;
  const int thread_id = rlxc_thread.x;
  alignas(16) threadgroup float tile_a[1024];
  alignas(16) threadgroup float tile_b[512];
  const int t0 = (n + 31) / 32;
  if (tile_x < t0) {
    const int in_batch = rlxc_mod_i32(tile_x, t0);
    const int group = in_batch / 8;
    const int t2 = group * 8;
    const int height = rlxc_min_i32(t0 - t2, 8);
    const int t1 = in_batch % 8;
    const int row0 = (t2 + rlxc_mod_i32(t1, height)) * 32;
    const int column0 = rlxc_div_i32(t1, height) * 16;
    const int warp_row = thread_id / 64;
    const int warp_column = thread_id / 32 % 2;
    const int in_warp = thread_id % 32;
    alignas(16) float next_a[4];
    alignas(16) float next_b[4];
    alignas(16) float sum[4];
    *(thread float2*)(sum + 0) = float2(0.0f);
    *(thread float2*)(sum + 2) = float2(0.0f);
    #pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int block = e * 128 + thread_id;
      const int k = block % 8 * 2;
      const int i = block / 8;
      const int t3 = row0 + i;
      *(thread float2*)(next_a + e * 2) = ((t3 < n) ? *(device const float2*)(a + t3 * 24 + k) : float2(0.0f));
    }
    if (thread_id < 64) {
      const int k_2 = thread_id % 8 * 2;
      const int i_2 = thread_id / 8 * 2;
      const int t4 = column0 + i_2;
      const int t5 = k_2 * 10;
      const bool t6 = t4 < 10;
      const float2 v = (t6 ? *(device const float2*)(b + t5 + t4) : float2(0.0f));
      next_b[0] = v[0];
      next_b[2] = v[1];
      const float2 v_2 = (t6 ? *(device const float2*)(b + t5 + 10 + t4) : float2(0.0f));
      next_b[1] = v_2[0];
      next_b[3] = v_2[1];
    }
    #pragma unroll
    for (int e_3 = 0; e_3 < 2; ++e_3) {
      const int block_3 = e_3 * 128 + thread_id;
      const int k_3 = block_3 % 8 * 2;
      const int i_3 = block_3 / 8;
      *(threadgroup float2*)(tile_a + i_3 * 16 + k_3) = *(thread const float2*)(next_a + e_3 * 2);
    }
    if (thread_id < 64) {
      const int k_4 = thread_id % 8 * 2;
      const int i_4 = thread_id / 8 * 2;
      *(threadgroup float2*)(tile_b + (i_4 / 2 * 2 + (i_4 + i_4 / 4) % 2) * 16 + k_4) = *(thread const float2*)(next_b + 0);
      const int t7 = i_4 + 1;
      *(threadgroup float2*)(tile_b + (t7 / 2 * 2 + (t7 + t7 / 4) % 2) * 16 + k_4) = *(thread const float2*)(next_b + 2);
    }
    const int t15 = in_warp % 2 * 2 + in_warp / 8 % 2 * 4;
    const int t16 = warp_row * 16;
    const int t18 = t16 + 8;
    const int t24 = in_warp / 2 % 4 + in_warp / 16 * 4;
    for (int slice = 0; slice < 2; ++slice) {
      threadgroup_barrier(mem_flags::mem_threadgroup);
      const int next = slice + 1;
      const int t8 = next * 16;
      #pragma unroll
      for (int e_5 = 0; e_5 < 2; ++e_5) {
        const int block_5 = e_5 * 128 + thread_id;
        const int k_5 = block_5 % 8 * 2;
        const int i_5 = block_5 / 8;
        const int t9 = t8 + k_5;
        const int t10 = row0 + i_5;
        *(thread float2*)(next_a + e_5 * 2) = (((t10 < n) & (t9 < 24)) ? *(device const float2*)(a + t10 * 24 + t9) : float2(0.0f));
      }
      if (thread_id < 64) {
        const int k_6 = thread_id % 8 * 2;
        const int i_6 = thread_id / 8 * 2;
        const int t11 = t8 + k_6;
        const int t12 = column0 + i_6;
        const int t13 = t11 * 10;
        const bool t14 = t12 < 10;
        const float2 v_3 = ((t14 & (t11 < 24)) ? *(device const float2*)(b + t13 + t12) : float2(0.0f));
        next_b[0] = v_3[0];
        next_b[2] = v_3[1];
        const float2 v_4 = ((t14 & (t11 + 1 < 24)) ? *(device const float2*)(b + t13 + 10 + t12) : float2(0.0f));
        next_b[1] = v_4[0];
        next_b[3] = v_4[1];
      }
      const int base = slice * 512;
      const int base_2 = slice * 256;
      alignas(16) float read_a[4];
      const int t17 = t15 * 2;
      const int t25 = (t16 + t24) * 16;
      *(thread float2*)(read_a + 0) = *(threadgroup const float2*)(tile_a + base + (t25 + t17));
      const int t26 = t17 + 2;
      *(thread float2*)(read_a + 2) = *(threadgroup const float2*)(tile_a + base + (t25 + t26));
      alignas(16) float part_a[2];
      part_a[0] = read_a[0];
      part_a[1] = read_a[2];
      const float2 part_a_at = *(thread const float2*)(part_a + 0);
      alignas(16) float part_a_2[2];
      part_a_2[0] = read_a[1];
      part_a_2[1] = read_a[3];
      const float2 part_a_2_at = *(thread const float2*)(part_a_2 + 0);
      alignas(16) float read_a_2[4];
      const int t27 = (t18 + t24) * 16;
      *(thread float2*)(read_a_2 + 0) = *(threadgroup const float2*)(tile_a + base + (t27 + t17));
      *(thread float2*)(read_a_2 + 2) = *(threadgroup const float2*)(tile_a + base + (t27 + t26));
      alignas(16) float part_a_3[2];
      part_a_3[0] = read_a_2[0];
      part_a_3[1] = read_a_2[2];
      const float2 part_a_3_at = *(thread const float2*)(part_a_3 + 0);
      alignas(16) float part_a_4[2];
      part_a_4[0] = read_a_2[1];
      part_a_4[1] = read_a_2[3];
      const float2 part_a_4_at = *(thread const float2*)(part_a_4 + 0);
      alignas(16) float read_b[4];
      const int t19 = t24 * 2;
      const int t28 = warp_column * 4;
      *(thread float2*)(read_b + 0) = *(threadgroup const float2*)(tile_b + base_2 + (((t28 + t15 / 2) * 2 + (t15 + t15 / 4) % 2) * 16 + t19));
      const int t29 = t15 + 1;
      *(thread float2*)(read_b + 2) = *(threadgroup const float2*)(tile_b + base_2 + (((t28 + t29 / 2) * 2 + (t15 + t29 / 4 + 1) % 2) * 16 + t19));
      alignas(16) float part_b[2];
      part_b[0] = read_b[0];
      part_b[1] = read_b[2];
      const float2 part_b_at = *(thread const float2*)(part_b + 0);
      alignas(16) float part_b_2[2];
      part_b_2[0] = read_b[1];
      part_b_2[1] = read_b[3];
      const float2 part_b_2_at = *(thread const float2*)(part_b_2 + 0);
      const float2 product = rlxc_multiply_f32(part_a_at, part_b_at, *(thread const float2*)(sum + 0));
      *(thread float2*)(sum + 0) = product;
      const float2 product_2 = rlxc_multiply_f32(part_a_3_at, part_b_at, *(thread const float2*)(sum + 2));
      *(thread float2*)(sum + 2) = product_2;
      const float2 product_3 = rlxc_multiply_f32(part_a_2_at, part_b_2_at, *(thread const float2*)(sum + 0));
      *(thread float2*)(sum + 0) = product_3;
      const float2 product_4 = rlxc_multiply_f32(part_a_4_at, part_b_2_at, *(thread const float2*)(sum + 2));
      *(thread float2*)(sum + 2) = product_4;
      const int t20 = next % 2;
      #pragma unroll
      for (int e_7 = 0; e_7 < 2; ++e_7) {
        const int block_7 = e_7 * 128 + thread_id;
        const int k_7 = block_7 % 8 * 2;
        const int i_7 = block_7 / 8;
        *(threadgroup float2*)(tile_a + t20 * 512 + (i_7 * 16 + k_7)) = *(thread const float2*)(next_a + e_7 * 2);
      }
      if (thread_id < 64) {
        const int k_8 = thread_id % 8 * 2;
        const int i_8 = thread_id / 8 * 2;
        const int t21 = t20 * 256;
        *(threadgroup float2*)(tile_b + t21 + ((i_8 / 2 * 2 + (i_8 + i_8 / 4) % 2) * 16 + k_8)) = *(thread const float2*)(next_b + 0);
        const int t22 = i_8 + 1;
        *(threadgroup float2*)(tile_b + t21 + ((t22 / 2 * 2 + (t22 + t22 / 4) % 2) * 16 + k_8)) = *(thread const float2*)(next_b + 2);
      }
    }
    const int row_part = row0 + t24;
    const int column_part = column0 + t15;
    const int row = row_part + t16;
    const int t23 = column_part + warp_column * 8;
    if (row < n) {
      if (t23 < 10) {
        *(device float2*)(c + row * 10 + t23) = rlxc_max_f32x2(float2(0.0f), *(thread const float2*)(sum + 0));
      }
    }
    const int row_2 = row_part + t18;
    if (row_2 < n) {
      if (t23 < 10) {
        *(device float2*)(c + row_2 * 10 + t23) = rlxc_max_f32x2(float2(0.0f), *(thread const float2*)(sum + 2));
      }
    }
  }
}
