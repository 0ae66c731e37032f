#include "import/onnx/tensor_file.h"

#include <memory>

#include "import/onnx/tensor.h"
#include "support/text.h"

namespace rlxc::onnx_import {
namespace {

constexpr int kMaxDepth = 16;

class ValueReader {
 public:
  ValueReader(TensorSource& source, std::string where, Diagnostics& d)
      : source_(source), where_(std::move(where)), diagnostics_(d) {}

  std::optional<FileValue> tensor(Bytes b) {
    TensorView view;
    FileValue v;
    if (!read_tensor(b, &view)) return malformed();
    auto data = source_.load(view, where_, diagnostics_);
    if (!data) return std::nullopt;
    v.tensor = std::move(*data);
    return v;
  }

  std::optional<FileValue> sequence(Bytes b, int depth) {
    if (depth > kMaxDepth) return malformed();
    FileValue v;
    v.kind = TypeKind::Sequence;
    WireReader r(b);
    while (r.next()) {
      std::optional<FileValue> item;
      switch (r.tag()) {
        case bytes_field(3): item = tensor(r.bytes()); break;
        case bytes_field(5): item = sequence(r.bytes(), depth + 1); break;
        case bytes_field(7): item = optional(r.bytes(), depth + 1); break;
        case bytes_field(4):
        case bytes_field(6): return unsupported();
        default: continue;
      }
      if (!item) return std::nullopt;
      v.items.push_back(std::move(*item));
    }
    return r.ok() ? std::optional(std::move(v)) : malformed();
  }

  std::optional<FileValue> optional(Bytes b, int depth) {
    if (depth > kMaxDepth) return malformed();
    FileValue v;
    v.kind = TypeKind::Optional;
    int64_t element = 0;  // OptionalProto.DataType: 0 none, 1 tensor, 3 sequence, 5 optional
    std::optional<Bytes> tensor_value, sequence_value, optional_value;
    WireReader r(b);
    while (r.next()) switch (r.tag()) {
        case varint_field(2): element = r.value(); break;
        case bytes_field(3): tensor_value = r.bytes(); break;
        case bytes_field(5): sequence_value = r.bytes(); break;
        case bytes_field(7): optional_value = r.bytes(); break;
        case bytes_field(4):
        case bytes_field(6): return unsupported();
      }
    if (!r.ok()) return malformed();
    std::optional<FileValue> item;
    if (tensor_value && !(element > 1 && tensor_value->empty())) item = tensor(*tensor_value);
    else if (sequence_value) item = sequence(*sequence_value, depth + 1);
    else if (optional_value) item = optional(*optional_value, depth + 1);
    else return v;
    if (!item) return std::nullopt;
    v.items.push_back(std::move(*item));
    return v;
  }

  std::optional<FileValue> malformed() {
    diagnostics_.error(Code::BadTensor, "the file is not a tensor, or it is cut short", where_);
    return std::nullopt;
  }
  std::optional<FileValue> unsupported() {
    diagnostics_.error(Code::UnsupportedAttribute, "maps and sparse tensors are not supported", where_);
    return std::nullopt;
  }

 private:
  TensorSource& source_;
  std::string where_;
  Diagnostics& diagnostics_;
};

}  // namespace

std::optional<FileValue> read_value_file(const std::string& path, TypeKind kind, Diagnostics& d) {
  auto file = open_model_file(path, d);
  if (!file) return std::nullopt;
  const auto shared = std::make_shared<const MappedFile>(std::move(*file));
  const size_t slash = path.rfind('/');
  TensorSource source(shared, slash == path.npos ? "." : path.substr(0, slash + 1),
                      slash == path.npos ? path : path.substr(slash + 1), MissingWeights::Refuse);
  ValueReader reader(source, quote(path), d);
  if (kind == TypeKind::Sequence) return reader.sequence(shared->bytes(), 0);
  if (kind == TypeKind::Optional) return reader.optional(shared->bytes(), 0);
  return reader.tensor(shared->bytes());
}

}  // namespace rlxc::onnx_import
