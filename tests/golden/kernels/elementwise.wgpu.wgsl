fn rlxc_float(bits: u32) -> f32 {
  var b = bits;  // not a constant: infinities are allowed
  return bitcast<f32>(b);
}
@group(0) @binding(0) var<storage, read_write> rlxc_memory: array<vec2<u32>>;
struct Arguments { x_at: i32, s_at: i32, b_at: i32, y_at: i32, n: i32 }
@group(0) @binding(1) var<uniform> rlxc_arguments: Arguments;
fn rlxc_load_x2(i: i32) -> vec2<f32> {
  let at = (rlxc_arguments.x_at + i) >> 1u;
  let e0 = rlxc_memory[at];
  return bitcast<vec2<f32>>(e0);
}
fn rlxc_read_s(i: i32) -> f32 {
  let at = rlxc_arguments.s_at + i;
  return unpack2x16float((rlxc_memory[(at >> 1u) >> 1u][(at >> 1u) & 1] >> (u32(at & 1) * 16u)) & 0xffffu).x;
}
fn rlxc_load_b2(i: i32) -> vec2<f32> {
  let at = (rlxc_arguments.b_at + i) >> 1u;
  let e0 = rlxc_memory[at];
  return bitcast<vec2<f32>>(e0);
}
fn rlxc_isnan_f32x2(x: vec2<f32>) -> vec2<bool> {
  return vec2<i32>(2139095040) < (bitcast<vec2<i32>>(x) & vec2<i32>(2147483647));
}
fn rlxc_max_f32x2(a: vec2<f32>, b: vec2<f32>) -> vec2<f32> {
  return select(b, a, (a > b) | rlxc_isnan_f32x2(a));
}
fn rlxc_min_f32x2(a: vec2<f32>, b: vec2<f32>) -> vec2<f32> {
  return select(b, a, (a < b) | rlxc_isnan_f32x2(a));
}
fn rlxc_shl_i32x2(a: vec2<i32>, b: vec2<i32>) -> vec2<i32> {
  return a << (vec2<u32>(b) & vec2<u32>(31u));
}
fn rlxc_exp_f32x2(x: vec2<f32>) -> vec2<f32> {
  let t0: vec2<f32> = rlxc_max_f32x2(vec2<f32>(-104.0f), rlxc_min_f32x2(vec2<f32>(90.0f), x));
  let t1: vec2<f32> = fma(t0, vec2<f32>(0.7213475f), vec2<f32>(12583039.0f));
  let t2: vec2<f32> = t1 - vec2<f32>(12583039.0f);
  let t3: vec2<f32> = fma(t2, vec2<f32>(0.00042438888f), fma(t2, vec2<f32>(-1.3867188f), t0));
  let t4: vec2<f32> = fma(fma(fma(fma(fma(fma(vec2<f32>(2.1584647e-05f), t3, vec2<f32>(0.0002615288f)), t3, vec2<f32>(0.0026042755f)), t3, vec2<f32>(0.02083315f)), t3, vec2<f32>(0.124999985f)), t3, vec2<f32>(0.5f)), t3, vec2<f32>(1.0f)) * bitcast<vec2<f32>>(rlxc_shl_i32x2(bitcast<vec2<i32>>(t1), vec2<i32>(23)));
  return t4 * t4;
}
fn rlxc_store_y2(i: i32, v: vec2<f32>) {
  let at = (rlxc_arguments.y_at + i) >> 1u;
  rlxc_memory[at] = bitcast<vec2<u32>>(v);
}

@compute @workgroup_size(64, 1, 1)
fn elementwise(@builtin(workgroup_id) rlxc_group: vec3<u32>, @builtin(local_invocation_id) rlxc_thread: vec3<u32>) {
  let n = rlxc_arguments.n;
  let group_x: i32 = i32(rlxc_group.x);
  let thread_id: i32 = i32(rlxc_thread.x);
  let t0: i32 = n * 3;
  if (group_x < (t0 + 63) / 64) {
    let i: i32 = group_x * 64 + thread_id;
    if (i < t0) {
      let i0: i32 = i / 3;
      let i1: i32 = i % 3;
      let t1: i32 = i1 * 2;
      let t2: i32 = i0 * 6 + t1;
      let x_v: vec2<f32> = rlxc_load_x2(t2);
      let s_v: f32 = rlxc_read_s(0);
      let b_v: vec2<f32> = rlxc_load_b2(t1);
      rlxc_store_y2(t2, x_v / (vec2<f32>(1.0f) + rlxc_exp_f32x2(-x_v)) * vec2<f32>(s_v) + b_v);
    }
  }
}
