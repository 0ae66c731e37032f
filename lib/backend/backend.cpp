#include "backend/backend.h"

#include "backend/graph_package.h"
#include "backend/registry.h"
#include "codegen/lower.h"
#include "codegen/make_package.h"

namespace rlxc {

std::span<const Backend* const> backends() {
  static const Backend* const all[] = {
#define BACKEND(target) &target##_backend(),
#include "backend/backends.def"
#undef BACKEND
  };
  return all;
}

const Backend* find_backend(std::string_view target) {
  for (const Backend* b : backends())
    if (b->info.name == target) return b;
  return nullptr;
}

std::optional<codegen::CapabilityRow> capability(const TargetInfo& t) {
  if (!t.language) return std::nullopt;
  codegen::CapabilityRow row;
  row.name = t.name;
  row.mapping = t.mapping;
  row.max_arguments = t.max_arguments;
  row.weights_apart = t.max_binding > 0;
  row.collectives = t.collectives;
  row.dtypes.reset();
  for (DType d : t.dtypes) row.dtypes.set(static_cast<size_t>(d));
  return row;
}

// DotGeneral and BatchNormInference are excluded: they expand to matmuls with better kernels.
bool has_kernels(OpKind op) { return op != OpKind::DotGeneral && op != OpKind::BatchNormInference && codegen::has_lowering(op); }

std::optional<codegen::Package> Backend::program(const LirModule& lir, Diagnostics& d, codegen::LoweringCache* lowerings) const {
  if (const auto row = capability(info)) {
    const std::string name = codegen::package_name(*lir.module);
    return lowerings ? codegen::make_package(lir, name, *lowerings, d) : codegen::make_package(lir, name, *row, d);
  }
  codegen::Package p = graph_only_package(lir, d);
  return d.ok() ? std::optional(std::move(p)) : std::nullopt;
}

std::optional<EmittedPackage> Backend::emit(const LirModule& lir, const CpuPackageOptions& options, Diagnostics& d,
                                            codegen::LoweringCache* lowerings) const {
  auto general = program(lir, d, lowerings);
  auto adapted = general ? adapt(std::move(*general), d) : std::nullopt;
  if (!adapted) return std::nullopt;
  auto files = write(*adapted, options, d);
  if (!files) return std::nullopt;
  return EmittedPackage{std::move(*adapted), std::move(*files)};
}

}  // namespace rlxc
