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
  let lane: i32 = i32(rlxc_thread.x);
  let i: i32 = i_y * 65535 + i_x;
  if (i < n) {
    let base: i32 = i * 70;
    var acc: f32 = 0.0f;
    for (var j: i32 = 0; j < 2; j++) {
      let r: i32 = j * 64 + lane;
      if (r < 70) {
        acc = acc + bitcast<f32>(rlxc_memory[rlxc_arguments.x_at + (base + r)]);
      }
    }
    let acc_at_2: f32 = acc;
    partial[lane] = acc_at_2;
    workgroupBarrier();
    if (lane < 32) {
      partial[lane] = partial[lane] + partial[lane + 32];
    }
    workgroupBarrier();
    if (lane < 16) {
      partial[lane] = partial[lane] + partial[lane + 16];
    }
    workgroupBarrier();
    if (lane < 8) {
      partial[lane] = partial[lane] + partial[lane + 8];
    }
    workgroupBarrier();
    if (lane < 4) {
      partial[lane] = partial[lane] + partial[lane + 4];
    }
    workgroupBarrier();
    if (lane < 2) {
      partial[lane] = partial[lane] + partial[lane + 2];
    }
    workgroupBarrier();
    if (lane < 1) {
      partial[lane] = partial[lane] + partial[1];
    }
    workgroupBarrier();
    let partial_at_13: f32 = partial[0];
    workgroupBarrier();
    if (lane == 0) {
      rlxc_memory[rlxc_arguments.y_at + i] = bitcast<u32>(partial_at_13 / 70.0f);
    }
  }
}
