// Tensor files of the ONNX backend tests (input_0.pb, ...): one TensorProto, SequenceProto or OptionalProto.
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
  std::vector<FileValue> items;  // of a sequence; of an optional: one, or none when empty
};

// The file does not say which message it holds: `kind` is that of the graph input or output it belongs to. nullopt with a
// diagnostic.
std::optional<FileValue> read_value_file(const std::string& path, TypeKind kind, Diagnostics&);

}  // namespace rlxc::onnx_import
