// Reads a model in any format: ONNX, GGUF, StableHLO, JSON graph, or IR text (the content determines the format), and applies the
// transforms of the options.
#pragma once
#include <optional>

#include "driver/loaded_model.h"
#include "options/options.h"
#include "support/diagnostics.h"

namespace rlxc {

std::optional<LoadedModel> load_model(const CompileOptions&, Diagnostics&);

}  // namespace rlxc
