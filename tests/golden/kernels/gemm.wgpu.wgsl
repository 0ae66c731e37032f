fn rlxc_float(bits: u32) -> f32 {
  var b = bits;  // not a constant: infinities are allowed
  return bitcast<f32>(b);
}
@group(0) @binding(0) var<storage, read_write> rlxc_memory: array<vec2<u32>>;
struct Arguments { a_at: i32, b_at: i32, c_at: i32, n: i32 }
@group(0) @binding(1) var<uniform> rlxc_arguments: Arguments;
var<workgroup> tile_a: array<vec4<f32>, 320>;
var<workgroup> tile_b: array<vec2<f32>, 512>;
fn rlxc_mod_i32(a: i32, b: i32) -> i32 {
  return select(a % select(b, i32(1), b == i32()), i32(), b == i32());
}
fn rlxc_load_a4(i: i32) -> vec4<f32> {
  let at = (rlxc_arguments.a_at + i) >> 1u;
  let e0 = rlxc_memory[at];
  let e1 = rlxc_memory[at + 1];
  return bitcast<vec4<f32>>(vec4<u32>(e0, e1));
}
fn rlxc_store_tile_a4(i: i32, v: vec4<f32>) {
  let at = (i) >> 2u;
  tile_a[at] = v;
}
fn rlxc_load_b2(i: i32) -> vec2<f32> {
  let at = (rlxc_arguments.b_at + i) >> 1u;
  let e0 = rlxc_memory[at];
  return bitcast<vec2<f32>>(e0);
}
fn rlxc_store_tile_b2(i: i32, v: vec2<f32>) {
  let at = (i) >> 1u;
  tile_b[at] = v;
}
fn rlxc_load_tile_a4(i: i32) -> vec4<f32> {
  let at = (i) >> 2u;
  let e0 = tile_a[at];
  return e0;
}
fn rlxc_load_tile_b4(i: i32) -> vec4<f32> {
  let at = (i) >> 1u;
  let e0 = tile_b[at];
  let e1 = tile_b[at + 1];
  return vec4<f32>(e0, e1);
}
fn rlxc_isnan_f32x2(x: vec2<f32>) -> vec2<bool> {
  return vec2<i32>(2139095040) < (bitcast<vec2<i32>>(x) & vec2<i32>(2147483647));
}
fn rlxc_max_f32x2(a: vec2<f32>, b: vec2<f32>) -> vec2<f32> {
  return select(b, a, (a > b) | rlxc_isnan_f32x2(a));
}
fn rlxc_store_c2(i: i32, v: vec2<f32>) {
  let at = (rlxc_arguments.c_at + i) >> 1u;
  rlxc_memory[at] = bitcast<vec2<u32>>(v);
}

@compute @workgroup_size(64, 1, 1)
fn gemm(@builtin(workgroup_id) rlxc_group: vec3<u32>, @builtin(local_invocation_id) rlxc_thread: vec3<u32>) {
  let n = rlxc_arguments.n;
  let tile_x: i32 = i32(rlxc_group.x);
  let thread_id: i32 = i32(rlxc_thread.x);
  let t0: i32 = (n + 31) / 32;
  if (tile_x < t0) {
    let row0: i32 = rlxc_mod_i32(tile_x, t0) * 32;
    let x: i32 = thread_id % 8;
    let y: i32 = thread_id / 8;
    var next_a: array<f32, 8>;
    var next_b: array<f32, 8>;
    var sum: f32 = 0.0f;
    var sum_2: f32 = 0.0f;
    var sum_3: f32 = 0.0f;
    var sum_4: f32 = 0.0f;
    var sum_5: f32 = 0.0f;
    var sum_6: f32 = 0.0f;
    var sum_7: f32 = 0.0f;
    var sum_8: f32 = 0.0f;
    var sum_9: f32 = 0.0f;
    var sum_10: f32 = 0.0f;
    var sum_11: f32 = 0.0f;
    var sum_12: f32 = 0.0f;
    var sum_13: f32 = 0.0f;
    var sum_14: f32 = 0.0f;
    var sum_15: f32 = 0.0f;
    var sum_16: f32 = 0.0f;
    for (var e: i32 = 0; e < 2; e++) {
      let block: i32 = e * 64 + thread_id;
      let p: i32 = block % 4 * 4;
      let i: i32 = block / 4;
      let t1: i32 = row0 + i;
      { let rlxc_stored = select(vec4<f32>(0.0f), rlxc_load_a4(t1 * 24 + p), (t1 < n)); next_a[(e * 4) + 0] = rlxc_stored[0]; next_a[(e * 4) + 1] = rlxc_stored[1]; next_a[(e * 4) + 2] = rlxc_stored[2]; next_a[(e * 4) + 3] = rlxc_stored[3]; }
    }
    for (var e_2: i32 = 0; e_2 < 2; e_2++) {
      let block_2: i32 = e_2 * 64 + thread_id;
      let p_2: i32 = block_2 % 4 * 4;
      let i_2: i32 = block_2 / 4;
      rlxc_store_tile_a4(i_2 * 20 + p_2, vec4<f32>(next_a[(e_2 * 4) + 0], next_a[(e_2 * 4) + 1], next_a[(e_2 * 4) + 2], next_a[(e_2 * 4) + 3]));
    }
    for (var e_3: i32 = 0; e_3 < 4; e_3++) {
      let block_3: i32 = e_3 * 64 + thread_id;
      let p_3: i32 = block_3 / 16;
      let i_3: i32 = block_3 % 16 * 2;
      { let rlxc_stored = select(vec2<f32>(0.0f), rlxc_load_b2(p_3 * 10 + i_3), (i_3 < 10)); next_b[(e_3 * 2) + 0] = rlxc_stored[0]; next_b[(e_3 * 2) + 1] = rlxc_stored[1]; }
    }
    for (var e_4: i32 = 0; e_4 < 4; e_4++) {
      let block_4: i32 = e_4 * 64 + thread_id;
      let p_4: i32 = block_4 / 16;
      let i_4: i32 = block_4 % 16 * 2;
      rlxc_store_tile_b2(p_4 * 32 + i_4, vec2<f32>(next_b[(e_4 * 2) + 0], next_b[(e_4 * 2) + 1]));
    }
    let t24: i32 = x * 4;
    for (var slice: i32 = 0; slice < 2; slice++) {
      workgroupBarrier();
      let next: i32 = slice + 1;
      let a_base: i32 = slice * 640;
      let b_base: i32 = slice * 512;
      let t2: i32 = next * 16;
      for (var e_5: i32 = 0; e_5 < 2; e_5++) {
        let block_5: i32 = e_5 * 64 + thread_id;
        let p_5: i32 = block_5 % 4 * 4;
        let i_5: i32 = block_5 / 4;
        let t3: i32 = t2 + p_5;
        let t4: i32 = row0 + i_5;
        { let rlxc_stored = select(vec4<f32>(0.0f), rlxc_load_a4(t4 * 24 + t3), ((t4 < n) & (t3 < 24))); next_a[(e_5 * 4) + 0] = rlxc_stored[0]; next_a[(e_5 * 4) + 1] = rlxc_stored[1]; next_a[(e_5 * 4) + 2] = rlxc_stored[2]; next_a[(e_5 * 4) + 3] = rlxc_stored[3]; }
      }
      for (var e_6: i32 = 0; e_6 < 4; e_6++) {
        let block_6: i32 = e_6 * 64 + thread_id;
        let p_6: i32 = block_6 / 16;
        let i_6: i32 = block_6 % 16 * 2;
        let t5: i32 = t2 + p_6;
        { let rlxc_stored = select(vec2<f32>(0.0f), rlxc_load_b2(t5 * 10 + i_6), ((i_6 < 10) & (t5 < 24))); next_b[(e_6 * 2) + 0] = rlxc_stored[0]; next_b[(e_6 * 2) + 1] = rlxc_stored[1]; }
      }
      for (var p_7: i32 = 0; p_7 < 4; p_7++) {
        let t6: i32 = p_7 * 4;
        let t7: i32 = y * 20;
        let tile_a_at: vec4<f32> = rlxc_load_tile_a4(a_base + (t7 + t6));
        let tile_a_at_2: vec4<f32> = rlxc_load_tile_a4(a_base + (t7 + 160 + t6));
        let tile_a_at_3: vec4<f32> = rlxc_load_tile_a4(a_base + (t7 + 320 + t6));
        let tile_a_at_4: vec4<f32> = rlxc_load_tile_a4(a_base + (t7 + 480 + t6));
        let t47: i32 = p_7 * 128;
        let tile_b_at: vec4<f32> = rlxc_load_tile_b4(b_base + (t47 + t24));
        let tile_b_at_2: vec4<f32> = rlxc_load_tile_b4(b_base + (t6 * 32 + 32 + t24));
        let t48: i32 = t24 + t47;
        let tile_b_at_3: vec4<f32> = rlxc_load_tile_b4(b_base + (t48 + 64));
        let tile_b_at_4: vec4<f32> = rlxc_load_tile_b4(b_base + (t48 + 96));
        let t8: f32 = tile_a_at[0];
        let t25: f32 = tile_b_at[0];
        sum = fma(t8, t25, sum);
        let t26: f32 = tile_b_at[1];
        sum_2 = fma(t8, t26, sum_2);
        let t27: f32 = tile_b_at[2];
        sum_3 = fma(t8, t27, sum_3);
        let t28: f32 = tile_b_at[3];
        sum_4 = fma(t8, t28, sum_4);
        let t12: f32 = tile_a_at_2[0];
        sum_5 = fma(t12, t25, sum_5);
        sum_6 = fma(t12, t26, sum_6);
        sum_7 = fma(t12, t27, sum_7);
        sum_8 = fma(t12, t28, sum_8);
        let t16: f32 = tile_a_at_3[0];
        sum_9 = fma(t16, t25, sum_9);
        sum_10 = fma(t16, t26, sum_10);
        sum_11 = fma(t16, t27, sum_11);
        sum_12 = fma(t16, t28, sum_12);
        let t20: f32 = tile_a_at_4[0];
        sum_13 = fma(t20, t25, sum_13);
        sum_14 = fma(t20, t26, sum_14);
        sum_15 = fma(t20, t27, sum_15);
        sum_16 = fma(t20, t28, sum_16);
        let t9: f32 = tile_a_at[1];
        let t29: f32 = tile_b_at_2[0];
        sum = fma(t9, t29, sum);
        let t30: f32 = tile_b_at_2[1];
        sum_2 = fma(t9, t30, sum_2);
        let t31: f32 = tile_b_at_2[2];
        sum_3 = fma(t9, t31, sum_3);
        let t32: f32 = tile_b_at_2[3];
        sum_4 = fma(t9, t32, sum_4);
        let t13: f32 = tile_a_at_2[1];
        sum_5 = fma(t13, t29, sum_5);
        sum_6 = fma(t13, t30, sum_6);
        sum_7 = fma(t13, t31, sum_7);
        sum_8 = fma(t13, t32, sum_8);
        let t17: f32 = tile_a_at_3[1];
        sum_9 = fma(t17, t29, sum_9);
        sum_10 = fma(t17, t30, sum_10);
        sum_11 = fma(t17, t31, sum_11);
        sum_12 = fma(t17, t32, sum_12);
        let t21: f32 = tile_a_at_4[1];
        sum_13 = fma(t21, t29, sum_13);
        sum_14 = fma(t21, t30, sum_14);
        sum_15 = fma(t21, t31, sum_15);
        sum_16 = fma(t21, t32, sum_16);
        let t10: f32 = tile_a_at[2];
        let t33: f32 = tile_b_at_3[0];
        sum = fma(t10, t33, sum);
        let t34: f32 = tile_b_at_3[1];
        sum_2 = fma(t10, t34, sum_2);
        let t35: f32 = tile_b_at_3[2];
        sum_3 = fma(t10, t35, sum_3);
        let t36: f32 = tile_b_at_3[3];
        sum_4 = fma(t10, t36, sum_4);
        let t14: f32 = tile_a_at_2[2];
        sum_5 = fma(t14, t33, sum_5);
        sum_6 = fma(t14, t34, sum_6);
        sum_7 = fma(t14, t35, sum_7);
        sum_8 = fma(t14, t36, sum_8);
        let t18: f32 = tile_a_at_3[2];
        sum_9 = fma(t18, t33, sum_9);
        sum_10 = fma(t18, t34, sum_10);
        sum_11 = fma(t18, t35, sum_11);
        sum_12 = fma(t18, t36, sum_12);
        let t22: f32 = tile_a_at_4[2];
        sum_13 = fma(t22, t33, sum_13);
        sum_14 = fma(t22, t34, sum_14);
        sum_15 = fma(t22, t35, sum_15);
        sum_16 = fma(t22, t36, sum_16);
        let t11: f32 = tile_a_at[3];
        let t37: f32 = tile_b_at_4[0];
        sum = fma(t11, t37, sum);
        let t38: f32 = tile_b_at_4[1];
        sum_2 = fma(t11, t38, sum_2);
        let t39: f32 = tile_b_at_4[2];
        sum_3 = fma(t11, t39, sum_3);
        let t40: f32 = tile_b_at_4[3];
        sum_4 = fma(t11, t40, sum_4);
        let t15: f32 = tile_a_at_2[3];
        sum_5 = fma(t15, t37, sum_5);
        sum_6 = fma(t15, t38, sum_6);
        sum_7 = fma(t15, t39, sum_7);
        sum_8 = fma(t15, t40, sum_8);
        let t19: f32 = tile_a_at_3[3];
        sum_9 = fma(t19, t37, sum_9);
        sum_10 = fma(t19, t38, sum_10);
        sum_11 = fma(t19, t39, sum_11);
        sum_12 = fma(t19, t40, sum_12);
        let t23: f32 = tile_a_at_4[3];
        sum_13 = fma(t23, t37, sum_13);
        sum_14 = fma(t23, t38, sum_14);
        sum_15 = fma(t23, t39, sum_15);
        sum_16 = fma(t23, t40, sum_16);
      }
      let t41: i32 = next % 2;
      for (var e_7: i32 = 0; e_7 < 2; e_7++) {
        let block_7: i32 = e_7 * 64 + thread_id;
        let p_8: i32 = block_7 % 4 * 4;
        let i_7: i32 = block_7 / 4;
        rlxc_store_tile_a4(t41 * 640 + (i_7 * 20 + p_8), vec4<f32>(next_a[(e_7 * 4) + 0], next_a[(e_7 * 4) + 1], next_a[(e_7 * 4) + 2], next_a[(e_7 * 4) + 3]));
      }
      for (var e_8: i32 = 0; e_8 < 4; e_8++) {
        let block_8: i32 = e_8 * 64 + thread_id;
        let p_9: i32 = block_8 / 16;
        let i_8: i32 = block_8 % 16 * 2;
        rlxc_store_tile_b2(t41 * 512 + (p_9 * 32 + i_8), vec2<f32>(next_b[(e_8 * 2) + 0], next_b[(e_8 * 2) + 1]));
      }
    }
    let row: i32 = row0 + y;
    let t43: i32 = t24 + 2;
    if (row < n) {
      let t42: i32 = row * 10;
      if (t24 < 10) {
        var all_v: array<f32, 2>;
        all_v[0] = sum;
        all_v[1] = sum_2;
        rlxc_store_c2(t42 + t24, rlxc_max_f32x2(vec2<f32>(0.0f), vec2<f32>(all_v[(0) + 0], all_v[(0) + 1])));
      }
      if (t43 < 10) {
        var all_v_2: array<f32, 2>;
        all_v_2[0] = sum_3;
        all_v_2[1] = sum_4;
        rlxc_store_c2(t42 + t43, rlxc_max_f32x2(vec2<f32>(0.0f), vec2<f32>(all_v_2[(0) + 0], all_v_2[(0) + 1])));
      }
    }
    let row_2: i32 = row0 + (y + 8);
    if (row_2 < n) {
      let t44: i32 = row_2 * 10;
      if (t24 < 10) {
        var all_v_3: array<f32, 2>;
        all_v_3[0] = sum_5;
        all_v_3[1] = sum_6;
        rlxc_store_c2(t44 + t24, rlxc_max_f32x2(vec2<f32>(0.0f), vec2<f32>(all_v_3[(0) + 0], all_v_3[(0) + 1])));
      }
      if (t43 < 10) {
        var all_v_4: array<f32, 2>;
        all_v_4[0] = sum_7;
        all_v_4[1] = sum_8;
        rlxc_store_c2(t44 + t43, rlxc_max_f32x2(vec2<f32>(0.0f), vec2<f32>(all_v_4[(0) + 0], all_v_4[(0) + 1])));
      }
    }
    let row_3: i32 = row0 + (y + 16);
    if (row_3 < n) {
      let t45: i32 = row_3 * 10;
      if (t24 < 10) {
        var all_v_5: array<f32, 2>;
        all_v_5[0] = sum_9;
        all_v_5[1] = sum_10;
        rlxc_store_c2(t45 + t24, rlxc_max_f32x2(vec2<f32>(0.0f), vec2<f32>(all_v_5[(0) + 0], all_v_5[(0) + 1])));
      }
      if (t43 < 10) {
        var all_v_6: array<f32, 2>;
        all_v_6[0] = sum_11;
        all_v_6[1] = sum_12;
        rlxc_store_c2(t45 + t43, rlxc_max_f32x2(vec2<f32>(0.0f), vec2<f32>(all_v_6[(0) + 0], all_v_6[(0) + 1])));
      }
    }
    let row_4: i32 = row0 + (y + 24);
    if (row_4 < n) {
      let t46: i32 = row_4 * 10;
      if (t24 < 10) {
        var all_v_7: array<f32, 2>;
        all_v_7[0] = sum_13;
        all_v_7[1] = sum_14;
        rlxc_store_c2(t46 + t24, rlxc_max_f32x2(vec2<f32>(0.0f), vec2<f32>(all_v_7[(0) + 0], all_v_7[(0) + 1])));
      }
      if (t43 < 10) {
        var all_v_8: array<f32, 2>;
        all_v_8[0] = sum_15;
        all_v_8[1] = sum_16;
        rlxc_store_c2(t46 + t43, rlxc_max_f32x2(vec2<f32>(0.0f), vec2<f32>(all_v_8[(0) + 0], all_v_8[(0) + 1])));
      }
    }
  }
}
