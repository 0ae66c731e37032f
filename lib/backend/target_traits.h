// What each of the seven targets claims, for the passes: which fused kinds it has kernels for, limits of elementwise regions, and
// the cost figures of fusion decisions.
#pragma once
#include <span>
#include <string_view>

#include "passes/pass.h"

namespace rlxc {

std::span<const std::string_view> target_names();  // cpu, metal, mlx, wgpu, cuda, rocm, tpu
// Null for an unknown name.
const TargetTraits* find_target(std::string_view name);
uint64_t arena_alignment(std::string_view target);
uint64_t max_binding(std::string_view target);  // see target::Target; 0 for an unknown name

}  // namespace rlxc
