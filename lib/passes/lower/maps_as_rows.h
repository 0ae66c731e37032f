// Kernels know tensors only. Where the last thing a model does is to dress rows of numbers as a sequence of maps (ai.onnx.ml
// ZipMap, with which exporters of classifiers end), its output becomes the rows: a tensor [rows, keys] whose columns are in
// ascending order of the keys.
#pragma once
#include <optional>
#include <vector>

#include "ir/graph.h"

namespace rlxc {

// The keys of the columns, for each output of the main graph that was a sequence of maps and is a tensor now. O(outputs + keys).
std::vector<std::optional<MapKeysAttrs>> maps_as_rows(Module&);

}  // namespace rlxc
