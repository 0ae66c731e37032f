fn rlxc_float(bits: u32) -> f32 {
  var b = bits;  // not a constant: infinities are allowed
  return bitcast<f32>(b);
}
@group(0) @binding(0) var<storage, read_write> rlxc_memory: array<u32>;
struct Arguments { x_at: i32, y_at: i32, n: i32 }
@group(0) @binding(1) var<uniform> rlxc_arguments: Arguments;
var<workgroup> partial: array<f32, 64>;
var<workgroup> partial_2: array<f32, 8>;
fn rlxc_add_f32(a: f32, b: f32) -> f32 {
  return a + b;
}
fn rlxc_reduce_add_f32x4(a: vec4<f32>) -> f32 {
  return rlxc_add_f32(rlxc_add_f32(a[0], a[2]), rlxc_add_f32(a[1], a[3]));
}
fn rlxc_load_partial4(i: i32) -> vec4<f32> {
  return vec4<f32>(partial[i], partial[i + 1], partial[i + 2], partial[i + 3]);
}
fn rlxc_load_partial_24(i: i32) -> vec4<f32> {
  return vec4<f32>(partial_2[i], partial_2[i + 1], partial_2[i + 2], partial_2[i + 3]);
}

@compute @workgroup_size(64, 1, 1)
fn reduction(@builtin(workgroup_id) rlxc_group: vec3<u32>, @builtin(local_invocation_id) rlxc_thread: vec3<u32>) {
  let n = rlxc_arguments.n;
  let i_x: i32 = i32(rlxc_group.x);
  let i_y: i32 = i32(rlxc_group.y);
  let thread_id: i32 = i32(rlxc_thread.x);
  let i: i32 = i_y * 65535 + i_x;
  if (i < n) {
    let base: i32 = i * 70;
    var acc: f32 = 0.0f;
    for (var j: i32 = 0; j < 2; j++) {
      let r: i32 = j * 64 + thread_id;
      if (r < 70) {
        acc = acc + bitcast<f32>(rlxc_memory[rlxc_arguments.x_at + (base + r)]);
      }
    }
    let acc_at_2: f32 = acc;
    partial[thread_id] = acc_at_2;
    workgroupBarrier();
    if (thread_id < 8) {
      let t0: i32 = thread_id * 8;
      partial_2[thread_id] = rlxc_reduce_add_f32x4(rlxc_load_partial4(t0) + rlxc_load_partial4(t0 + 4));
    }
    workgroupBarrier();
    let all_v: f32 = rlxc_reduce_add_f32x4(rlxc_load_partial_24(0) + rlxc_load_partial_24(4));
    workgroupBarrier();
    if (thread_id == 0) {
      rlxc_memory[rlxc_arguments.y_at + i] = bitcast<u32>(all_v / 70.0f);
    }
  }
}
