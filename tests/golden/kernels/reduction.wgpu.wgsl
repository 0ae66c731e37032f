fn rlxc_float(bits: u32) -> f32 {
  var b = bits;  // not a constant: infinities are allowed
  return bitcast<f32>(b);
}
@group(0) @binding(0) var<storage, read_write> rlxc_memory: array<u32>;
struct Arguments { x_at: i32, y_at: i32, n: i32 }
@group(0) @binding(1) var<uniform> rlxc_arguments: Arguments;
var<workgroup> partial: array<f32, 64>;

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
    if (thread_id < 32) {
      partial[thread_id] = partial[thread_id] + partial[thread_id + 32];
    }
    workgroupBarrier();
    if (thread_id < 16) {
      partial[thread_id] = partial[thread_id] + partial[thread_id + 16];
    }
    workgroupBarrier();
    if (thread_id < 8) {
      partial[thread_id] = partial[thread_id] + partial[thread_id + 8];
    }
    workgroupBarrier();
    if (thread_id < 4) {
      partial[thread_id] = partial[thread_id] + partial[thread_id + 4];
    }
    workgroupBarrier();
    if (thread_id < 2) {
      partial[thread_id] = partial[thread_id] + partial[thread_id + 2];
    }
    workgroupBarrier();
    if (thread_id < 1) {
      partial[thread_id] = partial[thread_id] + partial[1];
    }
    workgroupBarrier();
    let partial_at_13: f32 = partial[0];
    workgroupBarrier();
    if (thread_id == 0) {
      rlxc_memory[rlxc_arguments.y_at + i] = bitcast<u32>(partial_at_13 / 70.0f);
    }
  }
}
