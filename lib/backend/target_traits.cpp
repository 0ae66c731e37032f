#include "backend/target_traits.h"

#include <algorithm>
#include <map>
#include <string>

#include "backend/backend.h"
#include "backend/c/c_like.h"
#include "passes/legalise/decompositions.h"
#include "support/text.h"

namespace rlxc {
namespace {

TargetTraits make(const TargetInfo& row) {
  TargetTraits t;
  t.name = row.name;
  t.strides = row.language != nullptr;
  t.threads = row.language && !row.mapping.workgroups;
  t.integer_fusions = row.supports(OpKind::QAttention);
  t.splits_divisors = row.language && row.language().splits_divisors();
  t.region_max_steps = row.region_steps;
  t.region_max_inputs = row.region_inputs;
  t.machine = row.machine;
  for (const kernel::MatrixUnit& u : row.mapping.matrix_units)
    if (is_narrow(u.operand)) t.multiplies.set(static_cast<size_t>(u.operand));
  if (t.threads) t.machine.unit_bytes = static_cast<double>(row.mapping.parallel_bytes);
  for (size_t k = 0; k < kOpCount; ++k) {
    const auto op = static_cast<OpKind>(k);
    // Kinds without a decomposition stay, for code generation to report their nodes. Fused kinds need kernels.
    const bool avoidable = has_trait(op, kHir | kFused) || legalise::decomposition(op);
    if (avoidable && !row.supports(op)) t.native.reset(k);
    if (!has_trait(op, kActivation)) t.epilogues.reset(k);
  }
  return t;
}

}  // namespace

const std::vector<std::string_view>& target_names() {
  static const auto names = [] {
    std::vector<std::string_view> all;
    for (const Backend* b : backends()) all.push_back(b->info.name);
    return all;
  }();
  return names;
}

const TargetTraits* find_target(std::string_view name) {
  static const auto table = [] {
    std::map<std::string_view, TargetTraits> m;
    for (const Backend* b : backends()) m.emplace(b->info.name, make(b->info));
    return m;
  }();
  auto it = table.find(name);
  return it == table.end() ? nullptr : &it->second;
}

std::string target_advice(std::string_view name) {
  struct Alias {
    std::string_view names, targets;
  };
  constexpr Alias kAliases[] = {{"gpu", "cuda, rocm, metal or wgpu"},
                                {"nvidia|ptx|nvptx|sm_80|sm_90|tensorrt", "cuda"},
                                {"amd|hip|amdgpu", "rocm"},
                                {"vulkan|webgpu|wgsl|spirv|opencl|opengl|directx|d3d12", "wgpu"},
                                {"apple|mps|msl|ios|coreml", "metal or mlx"},
                                {"x86|x86_64|x64|arm|arm64|aarch64|riscv64|c|llvm|llvm-cpu|host|native", "cpu"},
                                {"xla|jax|stablehlo", "tpu"}};
  std::string lower(name);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  for (const Alias& a : kAliases)
    if (std::ranges::count(split(a.names, '|'), lower) > 0) return "did you mean " + std::string(a.targets) + "?";
  const auto close = closest(name, target_names());
  return close ? "did you mean " + std::string(*close) + "?" : "`rlxc list targets` shows them";
}

}  // namespace rlxc
