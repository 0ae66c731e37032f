fn rlxc_float(bits: u32) -> f32 {
  var b = bits;  // not a constant: infinities are allowed
  return bitcast<f32>(b);
}
@group(0) @binding(0) var<storage, read_write> rlxc_memory: array<u32>;
struct Arguments { x_at: i32, s_at: i32, b_at: i32, y_at: i32, n: i32 }
@group(0) @binding(1) var<uniform> rlxc_arguments: Arguments;
fn rlxc_read_s(i: i32) -> f32 {
  let at = rlxc_arguments.s_at + i;
  return unpack2x16float((rlxc_memory[at / 2] >> (u32(at % 2) * 16u)) & 0xffffu).x;
}

@compute @workgroup_size(64, 1, 1)
fn elementwise(@builtin(workgroup_id) rlxc_group: vec3<u32>, @builtin(local_invocation_id) rlxc_thread: vec3<u32>) {
  let n = rlxc_arguments.n;
  let group_x: i32 = i32(rlxc_group.x);
  let group_y: i32 = i32(rlxc_group.y);
  let thread_id: i32 = i32(rlxc_thread.x);
  let group: i32 = group_y * 65535 + group_x;
  let t0: i32 = n * 6;
  if (group < (t0 + 63) / 64) {
    let i: i32 = group * 64 + thread_id;
    if (i < t0) {
      let i0: i32 = i / 6;
      let i1: i32 = i % 6;
      let t1: i32 = i0 * 6 + i1;
      let x_v: f32 = bitcast<f32>(rlxc_memory[rlxc_arguments.x_at + t1]);
      let s_v: f32 = rlxc_read_s(0);
      let b_v: f32 = bitcast<f32>(rlxc_memory[rlxc_arguments.b_at + i1]);
      rlxc_memory[rlxc_arguments.y_at + t1] = bitcast<u32>(x_v / (1.0f + exp(-x_v)) * s_v + b_v);
    }
  }
}
