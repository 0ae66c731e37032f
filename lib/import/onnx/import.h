// ONNX models (IR version 3 and later, ai.onnx opset 1 to 28) -> MIR. The file is mapped and walked in place: weights stay where
// they are. Everything that is wrong or unsupported is reported in one run. O(nodes + names) time.
// Shapes are resolved during import: what exporters compute with Shape, Gather, Concat, ... arrives as symbolic sizes in the
// attributes of Reshape, Expand, Slice, ... and the nodes that computed them are made only where their values are data.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "support/diagnostics.h"

namespace rlxc::onnx_import {

// What becomes of tensors whose external file cannot be opened: they are errors; errors unless another external file of the model
// is there; parameters without data and a warning.
enum class MissingWeights : uint8_t { Refuse, AllowSome, Allow };

struct ImportOptions {
  DimBindings bind = {};  // sizes for symbols that the model names
  std::vector<std::pair<std::string, std::string>> assume =
      {};                                       // symbols of inputs that are equal to another one, or to a number
  size_t max_nodes = 20'000'000;                // ONNX nodes, those of bodies counted each time they are imported
  uint64_t max_operations = uint64_t{1} << 33;  // of the values that are computed from constants
  int max_depth = 64;                           // of nested sub-graphs and function calls
  size_t max_expansion = 1'000'000;             // ONNX nodes of functions of the model, those of each call
  MissingWeights missing_weights = MissingWeights::Refuse;
  // Contents of the i-th input, asked for where a shape depends on them: the module is then for these contents only, which a
  // warning says. Without it such models are unsupported.
  std::function<std::optional<TensorData>(size_t i, TypeKind)> contents = {};
  bool constant_contents = false;  // all short vectors among them are constants; else tried where a model is unsupported without
};

// Null when there is an error among the diagnostics.
std::unique_ptr<Module> import_onnx(const std::string& path, const ImportOptions&, Diagnostics&);

// The operators that are imported, sorted by domain ("" is ai.onnx) and name. `op`: what a regular one becomes; others become
// several nodes, or one by their attributes.
struct OperatorInfo {
  std::string_view domain, name;
  int min_inputs, max_inputs;  // -1: any number
  std::optional<OpKind> op;
};
std::vector<OperatorInfo> imported_operators();

}  // namespace rlxc::onnx_import
