// One compile: a loaded model through the pipeline of a target to LIR, with everything the reports need. No files are written
// here.
#pragma once
#include <functional>
#include <memory>
#include <optional>

#include "driver/load.h"
#include "driver/options.h"
#include "ir/lir.h"
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
  std::vector<report::DispatchNode> rewritten;  // by legalisation
  RunnerReport passes;
  std::vector<std::pair<std::string, double>> seconds;  // of the other stages: load, plan, ...
};

// Receives the text of a stage ("import", a pass name, "lir") as it is reached.
using StageSink = std::function<void(std::string_view stage, bool changed, const Module&)>;

// What the flags ask of the passes. Errors: bad precision or calibration files, unknown pass names.
std::optional<PassOptions> pass_options(const Options&, Diagnostics&);

// Runs the pipeline on a module in place. False on errors.
bool optimise(Module&, const TargetTraits&, const Options&, const PassOptions&, const StageSink&, Compiled*, Diagnostics&);

// The last step of a compile, from an optimised module.
std::optional<LirModule> plan_for(const std::string& target, std::unique_ptr<Module>, const Options&, Diagnostics&);

std::optional<Compiled> compile(LoadedModel, const std::string& target, const Options&, const StageSink&, Diagnostics&);

}  // namespace rlxc
