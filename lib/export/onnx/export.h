// Writes a module as an ONNX model of standard operators. Operations without one have to be written with simpler ones before
// (has_operator). Sizes that are expressions of symbols are computed in the model, from the sizes of its inputs.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "ir/graph.h"
#include "support/diagnostics.h"

namespace rlxc::onnx_export {

inline constexpr int64_t kOpset = 21;  // of ai.onnx

struct ExportOptions {
  bool embed = true;  // the bytes of weights are in the model; else those that lie in a file are named by place
  std::string producer_version;
};

// May nodes of this kind become an operator, or a few? Some attributes and types of it may not (is_exportable).
bool has_operator(OpKind);
bool is_exportable(const Graph&, NodeId);

// The bytes of the model; nullopt after errors, which name all nodes that have no operator. O(nodes + bytes of weights).
std::optional<std::string> export_onnx(const Module&, const ExportOptions&, Diagnostics&);

}  // namespace rlxc::onnx_export
