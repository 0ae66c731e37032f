fn rlxc_float(bits: u32) -> f32 {
  var b = bits;  // not a constant: infinities are allowed
  return bitcast<f32>(b);
}
@group(0) @binding(0) var<storage, read_write> rlxc_memory: array<u32>;
struct Arguments { a_at: i32, b_at: i32, c_at: i32, n: i32 }
@group(0) @binding(1) var<uniform> rlxc_arguments: Arguments;
var<workgroup> tile_a: array<f32, 512>;
var<workgroup> tile_b: array<f32, 256>;
fn rlxc_mod_i32(a: i32, b: i32) -> i32 {
  return select(a % select(b, i32(1), b == i32()), i32(), b == i32());
}
fn rlxc_load_tile_a4(i: i32) -> vec4<f32> {
  return vec4<f32>(tile_a[i], tile_a[i + 1], tile_a[i + 2], tile_a[i + 3]);
}
fn rlxc_max_f32(a: f32, b: f32) -> f32 {
  return select(b, a, (a > b) | (a != a));
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
    var sum: f32 = 0.0f;
    var sum_2: f32 = 0.0f;
    var sum_3: f32 = 0.0f;
    var sum_4: f32 = 0.0f;
    var sum_5: f32 = 0.0f;
    var sum_6: f32 = 0.0f;
    var sum_7: f32 = 0.0f;
    var sum_8: f32 = 0.0f;
    let t4: i32 = y * 4;
    let t10: i32 = x + 8;
    for (var slice: i32 = 0; slice < 2; slice++) {
      let k0: i32 = slice * 16;
      for (var e: i32 = 0; e < 8; e++) {
        let i: i32 = e * 64 + thread_id;
        let p: i32 = i % 16;
        let j: i32 = i / 16;
        var v: f32 = 0.0f;
        let t1: i32 = k0 + p;
        let t2: i32 = row0 + j;
        if ((t1 < 24) & (t2 < n)) {
          v = bitcast<f32>(rlxc_memory[rlxc_arguments.a_at + (t2 * 24 + t1)]);
        }
        tile_a[p * 32 + j] = v;
      }
      for (var e_2: i32 = 0; e_2 < 4; e_2++) {
        let i_2: i32 = e_2 * 64 + thread_id;
        let p_2: i32 = i_2 / 16;
        let j_2: i32 = i_2 % 16;
        var v_2: f32 = 0.0f;
        let t3: i32 = k0 + p_2;
        if ((t3 < 24) & (j_2 < 10)) {
          v_2 = bitcast<f32>(rlxc_memory[rlxc_arguments.b_at + (t3 * 10 + j_2)]);
        }
        tile_b[p_2 * 16 + j_2] = v_2;
      }
      workgroupBarrier();
      for (var p_3: i32 = 0; p_3 < 16; p_3++) {
        let tile_a_at: vec4<f32> = rlxc_load_tile_a4(p_3 * 32 + t4);
        let t9: i32 = p_3 * 16;
        let tile_b_at: f32 = tile_b[t9 + x];
        let tile_b_at_2: f32 = tile_b[t9 + t10];
        let t5: f32 = tile_a_at[0];
        sum = fma(t5, tile_b_at, sum);
        sum_2 = fma(t5, tile_b_at_2, sum_2);
        let t6: f32 = tile_a_at[1];
        sum_3 = fma(t6, tile_b_at, sum_3);
        sum_4 = fma(t6, tile_b_at_2, sum_4);
        let t7: f32 = tile_a_at[2];
        sum_5 = fma(t7, tile_b_at, sum_5);
        sum_6 = fma(t7, tile_b_at_2, sum_6);
        let t8: f32 = tile_a_at[3];
        sum_7 = fma(t8, tile_b_at, sum_7);
        sum_8 = fma(t8, tile_b_at_2, sum_8);
      }
      workgroupBarrier();
    }
    let row: i32 = row0 + t4;
    if (row < n) {
      let t11: i32 = row * 10;
      rlxc_memory[rlxc_arguments.c_at + (t11 + x)] = bitcast<u32>(rlxc_max_f32(sum, 0.0f));
      if (t10 < 10) {
        rlxc_memory[rlxc_arguments.c_at + (t11 + t10)] = bitcast<u32>(rlxc_max_f32(sum_2, 0.0f));
      }
    }
    let row_2: i32 = row0 + (t4 + 1);
    if (row_2 < n) {
      let t12: i32 = row_2 * 10;
      rlxc_memory[rlxc_arguments.c_at + (t12 + x)] = bitcast<u32>(rlxc_max_f32(sum_3, 0.0f));
      if (t10 < 10) {
        rlxc_memory[rlxc_arguments.c_at + (t12 + t10)] = bitcast<u32>(rlxc_max_f32(sum_4, 0.0f));
      }
    }
    let row_3: i32 = row0 + (t4 + 2);
    if (row_3 < n) {
      let t13: i32 = row_3 * 10;
      rlxc_memory[rlxc_arguments.c_at + (t13 + x)] = bitcast<u32>(rlxc_max_f32(sum_5, 0.0f));
      if (t10 < 10) {
        rlxc_memory[rlxc_arguments.c_at + (t13 + t10)] = bitcast<u32>(rlxc_max_f32(sum_6, 0.0f));
      }
    }
    let row_4: i32 = row0 + (t4 + 3);
    if (row_4 < n) {
      let t14: i32 = row_4 * 10;
      rlxc_memory[rlxc_arguments.c_at + (t14 + x)] = bitcast<u32>(rlxc_max_f32(sum_7, 0.0f));
      if (t10 < 10) {
        rlxc_memory[rlxc_arguments.c_at + (t14 + t10)] = bitcast<u32>(rlxc_max_f32(sum_8, 0.0f));
      }
    }
  }
}
