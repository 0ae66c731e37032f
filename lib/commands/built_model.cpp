#include "commands/built_model.h"

#include <filesystem>

#include "backend/backend.h"
#include "driver/limits.h"
#include "driver/training_stage.h"
#include "ir/mesh.h"
#include "runtime/emulate_package.h"
#include "runtime/interpret_package.h"
#include "runtime/observed_bounds.h"
#include "runtime/package_call.h"

namespace rlxc {
std::unique_ptr<KernelRunner> make_runner(const LirModule& lir, const CompileOptions& o, const RunRequest& run,
                                          codegen::LoweringCache* lowerings, Diagnostics& d) {
  if (run.device && find_backend(run.target)->info.host_run.how != HostRun::How::Emulated) {
    d.error(Code::BadFlag, "--device: packages for " + run.target + " always run on what this machine has", {},
            "it is a flag of cuda, rocm and metal");
    return nullptr;
  }
  if (run.engine == Engine::Interpreter)
    return make_interpreting_runner(lir, run.target, d, o.max_operations, lowerings, evaluation_limits(o).memory);
  EmulationOptions process;
  if (find_backend(run.target)->info.host_run.how != HostRun::How::Native) {
    process.on_device = run.device;
    process.tpu_precision = o.tpu_precision;
    return make_emulated_runner(lir, run.target, d, process, lowerings);
  }
  if (!run.sanitize && !mesh_of(*lir.module)) return make_kernel_runner(lir, d, {.max_operations = o.max_operations}, lowerings);
  process.sanitize = run.sanitize;
  process.model_folder = std::filesystem::absolute(o.input).parent_path().string();
  return make_emulated_runner(lir, run.target, d, process, lowerings);
}

std::unique_ptr<BuiltModel> build_model(LoadedModel model, const CompileOptions& o, const RunRequest& run,
                                        const std::vector<DataSet>& sets, Diagnostics& d) {
  if (run.engine == Engine::Kernels && find_backend(run.target)->info.static_sizes && !sets.empty())
    bind_input_sizes(*model.module, sets.front().inputs);
  CompileOptions own = o;
  own.whole_states = run.engine == Engine::Reference;
  auto compiled = compile(std::move(model), run.target, own, {}, d);
  if (!compiled) return nullptr;
  auto built = std::make_unique<BuiltModel>(BuiltModel{std::move(*compiled), nullptr});
  if (run.engine == Engine::Reference) return built;
  LirModule& lir = built->compiled.lir;
  auto& lowerings = built->compiled.lowerings;
  if (DimBindings bounds = observed_bounds(lir, sets, evaluation_limits(o), d); !bounds.empty()) {
    CompileOptions bounded = o;
    bounded.bounds.merge(bounds);
    if (built->compiled.training) bounded = training_options(bounded, *built->compiled.training);
    if (lowerings) lowerings = std::make_unique<codegen::LoweringCache>(lowerings->row());
    auto planned = plan_for(run.target, std::move(lir.module), bounded, lowerings.get(), d);
    if (!planned) return nullptr;
    planned->index_inputs = std::move(lir.index_inputs);
    lir = std::move(*planned);
  }
  built->kernels = make_runner(lir, o, run, lowerings.get(), d);
  return built->kernels ? std::move(built) : nullptr;
}

}  // namespace rlxc
