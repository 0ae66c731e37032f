// Imports ONNX models (IR version 3 and later, ai.onnx opset 1 to 28) as MIR. The file is mapped and parsed in place, without
// copying weights. Reports all errors in one run. O(nodes + names) time. Shapes are resolved during import: results of Shape,
// Gather, Concat, ... become symbolic dims in the attributes of Reshape, Expand, Slice, .... Nodes that compute them are created
// only if their values are used as data.
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

namespace rlxc {
class MappedFile;
struct OpDefinition;
}  // namespace rlxc

namespace rlxc::onnx_import {

// Policy for tensors whose external file cannot be opened. Refuse: an error. AllowSome: an error unless another external file
// exists. Allow: parameters without data, with a warning.
enum class MissingWeights : uint8_t { Refuse, AllowSome, Allow };

struct ImportOptions {
  DimBindings bind = {};  // values of symbols of the model
  // Input symbols that equal another symbol or a number.
  std::vector<std::pair<std::string, std::string>> assume = {};
  std::vector<std::pair<std::string, std::string>> shapes =
      {};  // of inputs with axes that are declared without a size: "2x3xseq"
  std::vector<std::pair<std::string, std::string>> values = {};  // contents of scalar and vector inputs: "1,2"
  size_t max_nodes = 20'000'000;                                 // ONNX nodes; nodes of bodies count each time they are imported
  uint64_t max_operations = uint64_t{1} << 33;                   // for values computed from constants
  int max_depth = 64;                                            // of nested subgraphs and function calls
  size_t max_expansion = 1'000'000;                              // ONNX nodes of expanded functions, counted per call
  MissingWeights missing_weights = MissingWeights::Refuse;
  // Float initializers are parameters, however small, and what is computed from them is not folded; otherwise small ones are
  // constants.
  bool trainable = false;
  std::vector<std::string>* float_initializers = nullptr;  // receives the names of those, if trainable
  // Returns the contents of the i-th input, if a shape depends on them. The module is then valid for these contents only, with a
  // warning. Unset: models of that kind are unsupported.
  std::function<std::optional<TensorData>(size_t i, TypeKind)> contents = {};
  const std::vector<OpDefinition>* operations = nullptr;  // of the user; null: none
  // Treat all short vectors as constants, or all sizes of inputs, too. Otherwise only if the model is unsupported without.
  bool constant_contents = false, constant_sizes = false;
};

// Return null on errors. The second form reads a copy of a file in memory; external weights are beside its path.
std::unique_ptr<Module> import_onnx(const std::string& path, const ImportOptions&, Diagnostics&);
std::unique_ptr<Module> import_onnx(std::shared_ptr<const MappedFile>, const ImportOptions&, Diagnostics&);

// The supported operators, sorted by domain ("" is ai.onnx) and name. `op`: the IR op of a regular operator; others become
// several nodes, or depend on attributes.
struct OperatorInfo {
  std::string_view domain, name;
  int min_inputs, max_inputs;  // -1: any number
  std::optional<OpKind> op;
  std::string_view refusal;  // why it is not supported; empty if it is
};
// All operators that the tables name, by domain and name.
std::vector<OperatorInfo> imported_operators();

}  // namespace rlxc::onnx_import
