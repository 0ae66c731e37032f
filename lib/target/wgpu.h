// WGSL. One kernel is one module: its buffers are bindings 0, 1, ... of group 0, then a uniform with its symbols.
// The language has 32-bit numbers only: 8- and 16-bit elements are packed in words as on other targets (f16 and bf16 become
// f32 when loaded), and stores of them are atomic, since lanes share words; indices must have been narrowed to i32
// (kernel::narrow_indices); i64 and f64 data are refused by wgpu_refuses.
#pragma once
#include "target/c_like.h"

namespace rlxc::target {

const CLike& wgpu();

// Why this kernel can't be written in WGSL, or empty.
std::string wgpu_refuses(const Kernel&);

}  // namespace rlxc::target
