// Compiles a loaded model through the pipeline of a target to LIR, and collects the data for reports. Writes no files.
#pragma once
#include <functional>
#include <memory>
#include <optional>

#include "codegen/lowering_cache.h"
#include "driver/loaded_model.h"
#include "eval/value.h"
#include "ir/lir.h"
#include "options/options.h"
#include "passes/runner.h"
#include "report/dispatch.h"
#include "report/fusion.h"

namespace rlxc {

struct Compiled {
  std::string target;
  LirModule lir;
  report::ModuleCounts before, after;  // the model as read, and the planned module
  std::vector<Decision> decisions;
  std::vector<PrecisionNote> precision;
  PassOptions options;
  transform::Ledger transforms;
  std::optional<transform::Training> training;
  std::vector<report::DispatchNode> rewritten;  // by legalisation
  RunnerReport passes;
  std::vector<std::pair<std::string, std::string>> pass_diffs;  // pass and unified diff of the text; collected for report.html
  std::unique_ptr<codegen::LoweringCache> lowerings;            // of the module; null for graph targets
  std::vector<std::pair<std::string, double>> seconds;          // other stages: load, plan, ...
};

// Receives the module after each stage ("import", a pass name, "lir").
using StageSink = std::function<void(std::string_view stage, bool changed, const Module&)>;

// Runs the pipeline on a module in place. Returns false on errors.
bool optimise(Module&, const TargetTraits&, const CompileOptions&, const PassOptions&, const StageSink&, Compiled*, Diagnostics&);

// How the host's inputs and outputs differ from those of the kernels.
struct HostForms {
  std::vector<std::optional<MapKeysAttrs>> maps;  // by output: column keys, if a map became rows
  std::vector<bool> text_inputs, text_outputs;    // whether strings became bytes
};
// Runs the first part of the pipeline, after which inputs can be converted to the form that kernels read. A compile of the module
// continues from there.
std::optional<HostForms> lower_interface(Module&, const std::string& target, const CompileOptions&, Diagnostics&);
// Results of kernels as the host knows them: strings and maps.
std::vector<eval::HostValue> host_results(const HostForms&, std::vector<eval::HostValue>);

// The last step of a compile: plans an optimised module.
std::optional<LirModule> plan_for(const std::string& target, std::unique_ptr<Module>, const CompileOptions&,
                                  codegen::LoweringCache* of_the_module, Diagnostics&);

// The program that evaluates a model in training, beside the compiled one that trains it. Its name is that of the other with
// _forward behind it.
std::optional<Compiled> compile_forward(const Compiled& step, const std::string& target, const CompileOptions&, Diagnostics&);

std::optional<Compiled> compile(LoadedModel, const std::string& target, const CompileOptions&, const StageSink&, Diagnostics&);

}  // namespace rlxc
