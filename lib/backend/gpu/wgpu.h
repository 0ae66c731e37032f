// WGSL. One kernel is one module. Binding 0 of group 0 is all memory that is written, as an array of words: WebGPU forbids to
// bind parts of one buffer twice where one of them is written, and parts at odd offsets. Binding 1 is a uniform with the first
// element of each argument (i32, counted in elements of the argument) and then the symbols (i32). Bindings 2, 3, ... are further
// pieces of the memory, where a device cannot bind all of it at a time, and then the arguments that are `separate`, each in one
// piece or several. See kernel::Buffer::binding.
// The language has 32-bit numbers only: 8- and 16-bit elements are packed in words as on other targets (f16 and bf16 become
// f32 when loaded), and stores of them are atomic, since lanes share words. 64-bit integers take 8 bytes in memory and are
// computed with 32 bits. f64 is refused.
#pragma once
#include "backend/c/c_like.h"

namespace rlxc::target {

const CLike& wgpu();

// What a kernel needs before it is rendered: 32-bit integers everywhere but in the types of its arguments. Constants saturate.
void wgpu_prepare(Kernel&);

// Why this kernel can't be written in WGSL, or empty.
std::string wgpu_refuses(const Kernel&);

}  // namespace rlxc::target
