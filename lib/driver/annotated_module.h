// A model for the devices of a mesh as one StableHLO module that XLA divides: parameters and outputs are annotated with the parts
// that devices have of them, in the dialect sdy.
#pragma once
#include "backend/stablehlo/translate.h"
#include "driver/compile.h"

namespace rlxc {

struct AnnotatedModel {
  Compiled compiled;  // the program of the whole model
  stablehlo::Annotations annotations;
};

// Decides the shardings as a compile with these options does, and compiles the undivided model. Nullopt, with a warning, if the
// model is cut into stages, which sdy cannot say, or has no such program. O(nodes).
std::optional<AnnotatedModel> annotated_model(const CompileOptions&, const std::string& target, Diagnostics&);

}  // namespace rlxc
