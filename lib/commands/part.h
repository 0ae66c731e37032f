// Parts of a model: some nodes of the main graph, with the values that they need as inputs.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "options/options.h"
#include "support/diagnostics.h"

namespace rlxc {

struct LoadedModel;

// Makes `inputs` inputs and `outputs` the outputs, in place, and removes what is not needed. An input keeps its name and type.
// `order`: gets the values that the inputs of the part stand for.
bool cut_part(Module&, std::span<const ValueId> inputs, std::span<const ValueId> outputs, const CompileOptions&, Diagnostics&,
              std::vector<ValueId>* order = nullptr);

// The nodes of the main graph that compute something, in execution order.
std::vector<NodeId> computing_nodes(const Module&);

// Keeps the given computing nodes, named by position: what they read becomes inputs, what others read of them outputs.
bool keep_nodes(Module&, std::span<const size_t> positions, const CompileOptions&, Diagnostics&);

// Copies weights out of their files, so that the module can be written to another folder.
void own_weights(Module&);

// Writes the module to CompileOptions::output: NAME.onnx, NAME.json, or else IR text.
bool write_module(Module&, const CompileOptions&, const LoadedModel& from, Diagnostics&);

}  // namespace rlxc
