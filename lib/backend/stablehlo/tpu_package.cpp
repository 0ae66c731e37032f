// The package of the tpu target: a StableHLO module and what its parameters are.
#include "backend/graph_package.h"
#include "backend/stablehlo/translate.h"
#include "backend/targets.h"

namespace rlxc {

std::optional<std::vector<TextFile>> write_tpu_package(const codegen::Package& p, const CpuPackageOptions& options,
                                                       Diagnostics& d) {
  std::string module = stablehlo::translate(*p.lir->module, p.name, target::target(target::TargetId::Tpu).dtypes, d);
  if (!d.ok()) return std::nullopt;
  std::vector<TextFile> files = {{"model.mlir", std::move(module)}, {"model.json", model_json(p, "tpu", options)}};
  files.push_back({"README.md", "# " + p.name +
                                    "\n\nA model compiled by rlxc for XLA.\n\n| file | content |\n|---|---|\n| `model.mlir` | "
                                    "StableHLO, in the generic form of MLIR |\n"
                                    "| `model.json` | inputs, outputs and weights, in the order of the parameters of @main "
                                    "(inputs first), and where the weights are |\n"});
  return files;
}

}  // namespace rlxc
