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
        case bytes_field(6): item = map(r.bytes(), depth + 1); break;
        case bytes_field(7): item = optional(r.bytes(), depth + 1); break;
        case bytes_field(4): return unsupported();
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
    int64_t element = 0;  // OptionalProto.DataType: 0 none, 1 tensor, 3 sequence, 4 map, 5 optional
    std::optional<Bytes> tensor_value, sequence_value, map_value, optional_value;
    WireReader r(b);
    while (r.next()) switch (r.tag()) {
        case varint_field(2): element = r.value(); break;
        case bytes_field(3): tensor_value = r.bytes(); break;
        case bytes_field(5): sequence_value = r.bytes(); break;
        case bytes_field(6): map_value = r.bytes(); break;
        case bytes_field(7): optional_value = r.bytes(); break;
        case bytes_field(4): return unsupported();
      }
    if (!r.ok()) return malformed();
    std::optional<FileValue> item;
    if (tensor_value && !(element > 1 && tensor_value->empty())) item = tensor(*tensor_value);
    else if (sequence_value) item = sequence(*sequence_value, depth + 1);
    else if (map_value) item = map(*map_value, depth + 1);
    else if (optional_value) item = optional(*optional_value, depth + 1);
    else return v;
    if (!item) return std::nullopt;
    v.items.push_back(std::move(*item));
    return v;
  }

  std::optional<FileValue> map(Bytes b, int depth) {
    if (depth > kMaxDepth) return malformed();
    std::vector<int64_t> keys;
    std::vector<std::string> strings;
    FileValue v, key_list;
    v.kind = TypeKind::Map;
    std::optional<FileValue> values(std::in_place);
    WireReader r(b);
    while (r.next()) switch (r.tag()) {
        case varint_field(3): keys.push_back(r.value()); break;
        case bytes_field(3):
          if (!read_packed(r.bytes(), &keys)) return malformed();
          break;
        case bytes_field(4): strings.emplace_back(r.text()); break;
        case bytes_field(5):
          if (values = sequence(r.bytes(), depth + 1); !values) return std::nullopt;
          break;
      }
    if (!r.ok() || (!keys.empty() && !strings.empty())) return malformed();
    TensorData& list = key_list.tensor = make_data(DType::I64, {static_cast<int64_t>(keys.size())}, keys);
    if (!strings.empty()) {
      list.dtype = DType::String, list.dims = {static_cast<int64_t>(strings.size())};
      list.strings = std::move(strings);
    }
    auto vector = vector_of(values->items);
    if (!vector) return std::nullopt;
    v.items.push_back(std::move(key_list));
    v.items.push_back(std::move(*vector));
    return v;
  }

  // Concatenates one-element tensors of one type to a vector.
  std::optional<FileValue> vector_of(const std::vector<FileValue>& items) {
    const auto first = items.empty() ? DType::F32 : items[0].tensor.dtype;
    std::vector<std::byte> bytes;
    FileValue v;
    TensorData& all = v.tensor;
    for (const FileValue& item : items) {
      const TensorData& x = item.tensor;
      if (item.kind != TypeKind::Tensor || x.dtype != first || x.elements() != 1 || (bits(first) > 0 && bits(first) < 8)) {
        diagnostics_.error(Code::UnsupportedAttribute, "the values of a map must be single elements of one type", where_);
        return std::nullopt;
      }
      bytes.insert(bytes.end(), x.bytes.begin(), x.bytes.end());
      all.strings.insert(all.strings.end(), x.strings.begin(), x.strings.end());
    }
    auto strings = std::move(all.strings);
    all = make_data(first, {static_cast<int64_t>(items.size())}, bytes);
    all.strings = std::move(strings);
    return v;
  }

  std::optional<FileValue> malformed() {
    diagnostics_.error(Code::BadTensor, "the file is not a tensor, or it is cut short", where_);
    return std::nullopt;
  }
  std::optional<FileValue> unsupported() {
    diagnostics_.error(Code::UnsupportedAttribute, "sparse tensors are not supported", where_);
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
  if (kind == TypeKind::Map) return reader.map(shared->bytes(), 0);
  return reader.tensor(shared->bytes());
}

}  // namespace rlxc::onnx_import
