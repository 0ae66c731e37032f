// A model that was compiled for `rlxc run`, and what runs it.
#pragma once
#include <memory>
#include <vector>

#include "driver/compile.h"
#include "runtime/data_set.h"
#include "runtime/run_kernels.h"

namespace rlxc {

struct BuiltModel {
  Compiled compiled;
  std::unique_ptr<KernelRunner> kernels;  // null with the reference engine, which evaluates the compiled module
};

// Runs a module that was planned for the target by the engine of the request, which is not the reference. Null after an error.
// `lowerings`: those of the plan, or null.
std::unique_ptr<KernelRunner> make_runner(const LirModule&, const CompileOptions&, const RunRequest&, codegen::LoweringCache*,
                                          Diagnostics&);

// `sets`: data whose sizes bound data-dependent dims; static sizes of a target are those of the first set. The kernels refer to
// the compiled module.
std::unique_ptr<BuiltModel> build_model(LoadedModel, const CompileOptions&, const RunRequest&, const std::vector<DataSet>& sets,
                                        Diagnostics&);

}  // namespace rlxc
