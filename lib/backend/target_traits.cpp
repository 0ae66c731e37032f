#include "backend/target_traits.h"

#include <array>
#include <limits>
#include <map>
#include <string>

#include "backend/dispatch.h"
#include "backend/graph_package.h"
#include "backend/stablehlo/translate.h"
#include "backend/targets.h"
#include "codegen/join_nodes.h"
#include "codegen/lower.h"
#include "passes/legalise/decompositions.h"

namespace rlxc {
namespace {

struct Row {
  std::string_view name;
  uint32_t region_steps, region_inputs;
  Machine machine;
  uint64_t alignment;
  bool (*native)(OpKind);  // kinds that some form of it can be written for
};

// These expand to products that have the better kernels.
bool has_kernels(OpKind op) { return op != OpKind::DotGeneral && op != OpKind::BatchNormInference && codegen::has_lowering(op); }

constexpr double kNever = std::numeric_limits<double>::infinity();

constexpr std::array<Row, 7> kRows = {{
    {"cpu", 64, 16, {50, 50, 200, 8, 0}, 64, has_kernels},
    {"metal", 32, 16, {500, 200, 4000, 64, 100e3}, 256, has_kernels},
    {"mlx", 32, 16, {500, 200, 4000, 64, 200e3}, 64, has_mlx_function},
    {"wgpu", 32, 8, {3000, 100, 2000, 32, 500e3}, 256, has_kernels},
    {"cuda", 32, 16, {2000, 800, 20000, 128, 10e3}, 256, has_kernels},
    {"rocm", 32, 16, {2000, 800, 20000, 128, 15e3}, 256, has_kernels},
    {"tpu", 32, 16, {3000, 800, 100000, 1, kNever}, 128, stablehlo::has_translation},
}};

constexpr std::array<std::string_view, kRows.size()> kNames = [] {
  std::array<std::string_view, kRows.size()> names;
  for (size_t i = 0; i < kRows.size(); ++i) names[i] = kRows[i].name;
  return names;
}();

TargetTraits make(const Row& row) {
  TargetTraits t;
  t.name = row.name;
  t.strides = row.native == has_kernels;
  t.region_max_steps = row.region_steps;
  t.region_max_inputs = row.region_inputs;
  t.machine = row.machine;
  if (const auto kernels = capability_row(row.name); kernels && kernels->mapping.lanes)
    t.joins = [kernels](const Graph& g, std::span<const NodeId> nodes, const codegen::IsWeight& known, std::string* why) {
      return codegen::can_join(g, nodes, *kernels, known, why);
    };
  for (size_t k = 0; k < kOpCount; ++k) {
    const auto op = static_cast<OpKind>(k);
    // What has no expansion stays: the writer of kernels names such nodes. Fused kinds are formed for targets that have them.
    const bool avoidable = has_trait(op, kHir | kFused) || legalise::decomposition(op);
    if (avoidable && !row.native(op)) t.native.reset(k);
    if (!has_trait(op, kActivation)) t.epilogues.reset(k);
  }
  return t;
}

}  // namespace

std::span<const std::string_view> target_names() { return kNames; }

const TargetTraits* find_target(std::string_view name) {
  static const auto table = [] {
    std::map<std::string_view, TargetTraits> m;
    for (const Row& row : kRows) m.emplace(row.name, make(row));
    return m;
  }();
  auto it = table.find(name);
  return it == table.end() ? nullptr : &it->second;
}

uint64_t arena_alignment(std::string_view target) {
  for (const Row& row : kRows)
    if (row.name == target) return row.alignment;
  return 64;
}

uint64_t max_binding(std::string_view target) {
  const auto id = target::target_from_name(target);
  return id ? target::target(*id).max_binding : 0;
}

}  // namespace rlxc
