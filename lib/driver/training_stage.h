// Training of a model as a stage behind its transforms (transform/training.h), and the programs that come of it.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "eval/value.h"
#include "options/options.h"
#include "passes/pass.h"
#include "support/diagnostics.h"
#include "transform/training.h"

namespace rlxc {

// Makes a step of training of the module, or with evaluate_only the program that evaluates one. With a mixed precision the model
// computes in it, and the loss, the updates and the states stay in f32. `initializers`: of floats, in the file; each is trained
// or frozen. True, and nothing done, without CompileOptions::train.
bool training_module(Module&, const CompileOptions&, std::span<const std::string> initializers,
                     std::optional<transform::Training>*, std::vector<PrecisionNote>*, Diagnostics&);

// The options of a compile of such a module: its states, and the precision that it already has.
CompileOptions training_options(const CompileOptions&, const transform::Training&);

// Initial contents of input i. Null if it is not a state of a parameter with data.
const TensorData* first_contents(const std::optional<transform::Training>&, size_t input);

// Random inputs of these sizes, but first contents for states. Integers are 0 to `int_high`; 0 and 1 are flags, and indices valid
// for two or more entries. The caller has checked that they fit.
std::vector<eval::HostValue> random_inputs(const Module&, const std::optional<transform::Training>&, const DimBindings& sizes,
                                           uint64_t seed, int64_t int_high = 1);

}  // namespace rlxc
