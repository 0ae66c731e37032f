// Writes a module as an ONNX model. Operations without an operator have to come with a body of those that have one
// (ExportOptions::bodies). Sizes that are expressions of symbols are computed in the model, from the sizes of its inputs.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/graph.h"
#include "support/diagnostics.h"

namespace rlxc::onnx_export {

inline constexpr int64_t kOldestOpset = 13, kNewestOpset = 21;  // of ai.onnx

struct OperatorSet {
  int64_t opset = kNewestOpset;
  bool microsoft = false;  // operators of com.microsoft, which ONNX Runtime has, for fused operations
};

// The computation of a node, as a graph from its present operands to its results.
struct Body {
  GraphId graph;
  std::string domain, function;  // written once, as a function of this name; empty: in place of the node
};

struct ExportOptions {
  OperatorSet operators;
  std::string producer_version;
  std::map<std::pair<GraphId, NodeId>, Body> bodies;
  // Where weights are stored. Embedded: in the model. Shared: weights of external files stay in them. Beside: large weights go to
  // `data_file` beside the model, which the caller writes (ExternalData).
  enum class Weights : uint8_t { Embedded, Shared, Beside } weights = Weights::Embedded;
  std::string read_from;  // name of the model that was read: its own weights are not shared
  std::string data_file;
};

// The parts of `data_file`: weights at multiples of kDataAlignment, in order.
struct ExternalData {
  const TensorData* data;
  uint64_t offset;
};
inline constexpr uint64_t kDataAlignment = 4096;

// Is there an operator, or a few, for the kind, the attributes and the types of the node?
bool is_exportable(const Graph&, NodeId, const OperatorSet&);

// The bytes of the model; nullopt after errors, which name all nodes that have no operator. O(nodes + bytes of weights).
std::optional<std::string> export_onnx(const Module&, const ExportOptions&, std::vector<ExternalData>*, Diagnostics&);

// The bytes of a tensor file (input_0.pb). O(bytes).
std::string tensor_file(const TensorData&, const std::string& name);

}  // namespace rlxc::onnx_export
