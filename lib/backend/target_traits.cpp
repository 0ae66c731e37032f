#include "backend/target_traits.h"

#include <map>
#include <string>

#include "backend/backend.h"
#include "passes/legalise/decompositions.h"

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

}  // namespace rlxc
