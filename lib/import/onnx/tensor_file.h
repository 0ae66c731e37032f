// Tensor files of the ONNX backend tests (input_0.pb, ...): one TensorProto, SequenceProto, OptionalProto or MapProto.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "ir/data.h"
#include "ir/type.h"
#include "support/diagnostics.h"

namespace rlxc::onnx_import {

struct FileValue {
  TypeKind kind = TypeKind::Tensor;
  TensorData tensor;
  // Sequence: its items. Optional: one or none. Map: the keys [n], and a sequence of n values.
  std::vector<FileValue> items;
};

// The file does not identify its message type: `kind` is that of the graph input or output. Returns nullopt with a diagnostic.
std::optional<FileValue> read_value_file(const std::string& path, TypeKind kind, Diagnostics&);

}  // namespace rlxc::onnx_import
