// The package of the tpu target: a StableHLO module, and model.json with its parameters.
#include <limits>

#include "backend/graph_package.h"
#include "backend/registry.h"
#include "backend/stablehlo/translate.h"

namespace rlxc {
namespace {

constexpr DType kTpuTypes[] = {DType::F32,  DType::F16, DType::BF16,     DType::F64,    DType::I8,  DType::I16,
                               DType::I32,  DType::I64, DType::U8,       DType::U16,    DType::U32, DType::U64,
                               DType::Bool, DType::C64, DType::F8E4M3FN, DType::F8E5M2, DType::I4,  DType::U4};

class StableHloBackend : public Backend {
 public:
  using Backend::Backend;

  // Writes model.mlir, model.json, README.md.
  std::optional<std::vector<TextFile>> write(const codegen::Package& p, const CpuPackageOptions& options,
                                             Diagnostics& d) const override {
    std::string module = stablehlo::translate(*p.lir->module, p.name, info.dtypes, d);
    if (!d.ok()) return std::nullopt;
    return std::vector<TextFile>{
        {"model.mlir", std::move(module)},
        {"model.json", model_json(p, info.name, options)},
        {"README.md", "# " + p.name +
                          "\n\nA model compiled by rlxc for XLA.\n\n| file | content |\n|---|---|\n| `model.mlir` | "
                          "StableHLO, in the generic form of MLIR |\n"
                          "| `model.json` | inputs, outputs and weights, in the order of the parameters of @main "
                          "(inputs first), and where the weights are |\n"}};
  }
};

}  // namespace

static constexpr TargetInfo kTpu = {
    .name = "tpu",
    .emits = "StableHLO",
    .extension = "mlir",
    .supports = stablehlo::has_translation,
    .dtypes = kTpuTypes,
    .machine = {3000, 800, 100000, 1, std::numeric_limits<double>::infinity()},
    .alignment = 128,
    .primitive_ops = true,
    .static_sizes = true,
    .claims = 6,
    .host_run = {.how = HostRun::How::Script, .interpreter = "python3", .script_named = "RLXC_STABLEHLO"}};

const Backend& tpu_backend() {
  static const StableHloBackend backend(kTpu);
  return backend;
}

}  // namespace rlxc
