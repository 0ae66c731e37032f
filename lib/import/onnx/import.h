// ONNX models (IR version 3 and later, ai.onnx opset 1 to 28) -> MIR. The file is mapped and walked in place: weights stay where
// they are. Everything that is wrong or unsupported is reported in one run. O(nodes + names) time.
// Shapes are resolved during import: what exporters compute with Shape, Gather, Concat, ... arrives as symbolic sizes in the
// attributes of Reshape, Expand, Slice, ... and the nodes that computed them are made only where their values are data.
#pragma once
#include <memory>
#include <string>

#include "ir/graph.h"
#include "support/diagnostics.h"

namespace rlxc::onnx_import {

struct ImportOptions {
  DimBindings bind;                        // sizes for symbols that the model names
  size_t max_nodes = 20'000'000;           // ONNX nodes, those of bodies counted each time they are imported
  int max_depth = 64;                      // of nested sub-graphs and function calls
  size_t max_function_expansion = 1'000'000;  // ONNX nodes that come from inlined model-local functions
  bool allow_missing_weights = false;      // external data that are not there become parameters without data
};

// Null when there is an error among the diagnostics.
std::unique_ptr<Module> import_onnx(const std::string& path, const ImportOptions&, Diagnostics&);

}  // namespace rlxc::onnx_import
