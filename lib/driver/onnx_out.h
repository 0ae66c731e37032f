// A module as an ONNX model.
#pragma once
#include <optional>
#include <string>

#include "ir/graph.h"
#include "options/options.h"
#include "support/diagnostics.h"

namespace rlxc {

// Writes what has no operator of ONNX with simpler operations, in place, and then the model. The weights of a large model stay in
// its files, beside which the new one has to lie (CompileOptions::output); --embed-weights copies them. nullopt after errors.
std::optional<std::string> onnx_model(Module&, const CompileOptions&, Diagnostics&);

}  // namespace rlxc
