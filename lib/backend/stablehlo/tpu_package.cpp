// The package of the tpu target: a StableHLO module, and model.json with its parameters.
#include <limits>

#include "backend/backend.h"
#include "backend/graph_package.h"
#include "backend/host_files.h"
#include "backend/package_text.h"
#include "backend/registry.h"
#include "backend/stablehlo/translate.h"

namespace rlxc {
namespace {

constexpr DType kTpuTypes[] = {DType::F32,  DType::F16, DType::BF16,     DType::F64,    DType::I8,  DType::I16,
                               DType::I32,  DType::I64, DType::U8,       DType::U16,    DType::U32, DType::U64,
                               DType::Bool, DType::C64, DType::F8E4M3FN, DType::F8E5M2, DType::I4,  DType::U4};

std::string readme(const codegen::Package& p, bool prepares) {
  std::string call, arrays, states;
  if (!p.lir->states.empty())
    states =
        "`states = model.start()` makes the states on the device, and `model.advance(states, NAME=array, ...)` runs a step that "
        "gives their memory to their next values; it returns the other outputs.\n\n";
  for (size_t i = 0; i < p.inputs.size(); ++i) {
    const Graph& g = p.lir->module->graph(p.inputs[i].graph);
    const Type& t = g.type(p.inputs[i].value);
    call += " input_" + std::to_string(i) + ".bin";
    arrays += "    np.zeros((";
    for (Dim d : t.dims) arrays += p.lir->module->dims.text(d) + ",";
    arrays += "), model.dtype(\"" + std::string(name(t.dtype)) + "\")),  # " + p.inputs[i].name.line() + "\n";
  }
  return "# " + p.name +
         "\n\nA model compiled by rlxc for XLA.\n\n| file | content |\n|---|---|\n"
         "| `model.mlir` | StableHLO, in the generic form of MLIR |\n"
         "| `model.json` | inputs, outputs, weights, and where the weights are; `parameters`: what @main takes after the inputs "
         "|\n" +
         (prepares
              ? "| `weights.mlir` | a module that the runner calls once: it takes the weights of `prepared` in `model.json`, and "
                "gives parameters of @main |\n"
              : "") +
         "| `run.py` | a runner on raw files, and the class `Model`: on the device that JAX finds; "
         "`rlxc_weights.py` reads the weights for it |\n\n"
         "`python3 run.py WEIGHTS" +
         call +
         "` runs it on raw files, little-endian, and writes output_<i>.bin. WEIGHTS is the folder with the weights. It needs "
         "NumPy and JAX (`pip install jax`). In Python:\n\n```python\nimport numpy as np\nimport run as model\n\n"
         "outputs = model.Model(weights=\".\")(\n" +
         arrays + ")  # a list of arrays\n```\n\n" + states + tensor_table(p) + "\n" + checked_ranges(p, "it raises ValueError") +
         "\n";
}

class StableHloBackend : public Backend {
 public:
  using Backend::Backend;

  // Writes model.mlir, weights.mlir if it has anything to do, model.json, README.md.
  std::optional<std::vector<TextFile>> write(const codegen::Package& p, const CpuPackageOptions& options,
                                             Diagnostics& d) const override {
    stablehlo::Program program = stablehlo::translate(*p.lir, p.name, info.dtypes, options, d);
    if (!d.ok()) return std::nullopt;
    const bool all = program.parameters.size() == p.weights.size() && program.preparation.empty();
    std::vector<TextFile> files = {{"model.mlir", std::move(program.module)},
                                   {"model.json", model_json(p, info.name, options, all ? nullptr : &program.parameters,
                                                             program.preparation.empty() ? nullptr : &program.prepared)}};
    const bool prepares = !program.preparation.empty();
    if (prepares) files.push_back({"weights.mlir", std::move(program.preparation)});
    for (const HostFile& h : host_files())
      if (h.name == "run.py" || h.name == "rlxc_weights.py") files.push_back({std::string(h.name), std::string(h.text)});
    files.push_back({"README.md", readme(p, prepares)});
    return files;
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
    .annotations = true,
    .primitive_ops = true,
    .half = DType::BF16,
    .static_sizes = true,
    .claims = 6,
    .host_run = {.how = HostRun::How::Script, .interpreter = "python3", .script = "run.py", .script_named = "RLXC_STABLEHLO"}};

const Backend& tpu_backend() {
  static const StableHloBackend backend(kTpu);
  return backend;
}

}  // namespace rlxc
