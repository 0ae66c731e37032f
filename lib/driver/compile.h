// One compile: a loaded model through the pipeline of a target to LIR, with everything the reports need. No files are written
// here.
#pragma once
#include <functional>
#include <memory>
#include <optional>

#include "codegen/lowering_cache.h"
#include "driver/load.h"
#include "ir/lir.h"
#include "options/options.h"
#include "passes/runner.h"
#include "report/dispatch.h"
#include "report/fusion.h"

namespace rlxc {

struct Compiled {
  std::string target;
  LirModule lir;
  report::ModuleCounts before, after;  // the model as it was read, and the module that was planned
  std::vector<Decision> decisions;
  std::vector<PrecisionNote> precision;
  PassOptions options;
  transform::Ledger transforms;
  std::vector<report::DispatchNode> rewritten;  // by legalisation
  RunnerReport passes;
  std::unique_ptr<codegen::LoweringCache> lowerings;    // of the module; null where kernels are not ours
  std::vector<std::pair<std::string, double>> seconds;  // of the other stages: load, plan, ...
};

// Receives the text of a stage ("import", a pass name, "lir") as it is reached.
using StageSink = std::function<void(std::string_view stage, bool changed, const Module&)>;

// What the flags ask of the passes. Errors: bad precision or calibration files, unknown pass names.
std::optional<PassOptions> pass_options(const CompileOptions&, Diagnostics&);

// Runs the pipeline on a module in place. False on errors.
bool optimise(Module&, const TargetTraits&, const CompileOptions&, const PassOptions&, const StageSink&, Compiled*, Diagnostics&);

// How the values that the host of a model passes in and gets out differ from those of the kernels.
struct HostForms {
  std::vector<std::optional<MapKeysAttrs>> maps;  // outputs that were maps and are rows: the keys of their columns
  std::vector<bool> text;                         // outputs that were strings and are bytes; empty: none
  bool bytes = false;                             // strings are bytes, in inputs too
};
// Runs the first part of the pipeline alone, so that inputs can be given the form that kernels read. A compile of the module
// goes on from there.
std::optional<HostForms> lower_interface(Module&, const std::string& target, const CompileOptions&, Diagnostics&);

// The last step of a compile, from an optimised module.
std::optional<LirModule> plan_for(const std::string& target, std::unique_ptr<Module>, const CompileOptions&,
                                  codegen::LoweringCache* of_the_module, Diagnostics&);

std::optional<Compiled> compile(LoadedModel, const std::string& target, const CompileOptions&, const StageSink&, Diagnostics&);

}  // namespace rlxc
