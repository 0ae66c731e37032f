#include "import/onnx/tensor.h"

#include <algorithm>
#include <cstring>

#include "ir/dim.h"
#include "support/checked.h"
#include "support/hash.h"
#include "support/text.h"

namespace rlxc::onnx_import {
namespace {

constexpr int64_t kMaxSparseBytes = int64_t{1} << 30;  // of a densified sparse tensor

// The typed field that the specification names for the element type, and the bytes per entry.
struct TypedField {
  uint32_t number;
  int entry_bytes;
};
TypedField typed_field(DType t) {
  switch (t) {
    case DType::F32: return {4, 4};
    case DType::C64: return {4, 4};
    case DType::F64: return {10, 8};
    case DType::C128: return {10, 8};
    case DType::I64: return {7, 8};
    case DType::U32: return {11, 4};
    case DType::U64: return {11, 8};
    case DType::I32: return {5, 4};
    case DType::I16:
    case DType::U16:
    case DType::F16:
    case DType::BF16: return {5, 2};
    default: return {5, 1};  // bool, 8-bit and packed types
  }
}

void append(std::vector<std::byte>* out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out->push_back(static_cast<std::byte>(value >> (8 * i) & 255));
}

}  // namespace

std::optional<DType> read_dtype(int64_t onnx_type, const std::string& where, Diagnostics& d) {
  if (const auto t = onnx_type > 0 && onnx_type < 1000 ? dtype_from_onnx(static_cast<int>(onnx_type)) : std::nullopt) return t;
  d.error(onnx_type == 0 ? Code::BadType : Code::UnsupportedAttribute,
          onnx_type == 0 ? "the element type is not given" : "element type " + std::to_string(onnx_type) + " is unknown", where);
  return std::nullopt;
}

void TensorSource::refer(TensorData* data, Bytes b) const {
  data->bytes = b;
  data->owner = file_;
  if (name_.empty()) return;
  data->file = name_;
  data->offset = static_cast<uint64_t>(b.data() - file_->data());
}

// The first tensor whose checksum differs from its file's reports it; later tensors of the file fail silently.
bool TensorSource::verify_checksum(const ExternalData& e, External& external, const std::string& where, Diagnostics& d) const {
  if (external.refused) return false;
  if (e.checksum.empty() || !external.file) return true;
  if (external.sha1.empty()) external.sha1 = sha1_hex(external.file->bytes());
  const auto same = [](char a, char b) { return a == (b >= 'A' && b <= 'Z' ? b - 'A' + 'a' : b); };
  if (std::ranges::equal(external.sha1, e.checksum, same)) return true;
  external.refused = true;
  d.error(Code::BadTensor,
          "the model gives " + quote(e.location) + " the SHA-1 checksum " + quote(e.checksum) + ", the file has " + external.sha1,
          where, "the file was changed or belongs to another model");
  return false;
}

bool TensorSource::load_external(const TensorView& t, TensorData* data, uint64_t size, const std::string& where, Diagnostics& d,
                                 bool* missing) {
  const ExternalData& e = t.external_data;
  if (e.malformed || e.location.empty()) {
    d.error(Code::BadTensor,
            e.malformed ? "offset or length of the external data is not a number" : "the external data name no file", where);
    return false;
  }
  auto it = external_.find(e.location);
  if (it == external_.end()) {
    Diagnostics local;
    External external;
    if (auto file = resolve_external(folder_, e.location, local))
      external.file = std::make_shared<const MappedFile>(std::move(*file));
    for (const Diagnostic& item : local.items())
      if (item.code == Code::MissingWeights) external.problem = item.where + ": " + item.message;
      else d.add(item);
    it = external_.emplace(std::string(e.location), std::move(external)).first;
  }
  External& external = it->second;
  const MappedFile* file = external.file.get();
  if (file && e.length && *e.length != size) {
    d.error(Code::BadTensor,
            "the external data have " + std::to_string(*e.length) + " bytes, the shape needs " + std::to_string(size), where);
    return false;
  }
  if (!verify_checksum(e, external, where, d)) return false;
  const bool there = file && in_bounds(e.offset, size, file->size());
  if (file && !there && policy_ != MissingWeights::Allow) {
    d.error(Code::MissingWeights,
            "the external data end at byte " + std::to_string(e.offset + size) + " of " + quote(e.location) + ", which has " +
                std::to_string(file->size()),
            where, "the file is cut short or belongs to another model");
    return false;
  }
  data->file = std::string(e.location);
  data->offset = e.offset;
  if (!there) {
    if (!missing && !external.problem.empty()) d.error(Code::MissingWeights, external.problem, where);
    if (!missing) return false;
    *missing = true;
    ++external.tensors;
    external.bytes += size;
    return file || !external.problem.empty();
  }
  data->bytes = file->bytes().subspan(e.offset, size);
  data->owner = external.file;
  return true;
}

void TensorSource::report_missing(Diagnostics& d) const {
  const bool any_there = std::any_of(external_.begin(), external_.end(), [](const auto& e) { return e.second.file != nullptr; });
  const bool allowed = policy_ == MissingWeights::Allow || (policy_ == MissingWeights::AllowSome && any_there);
  for (const auto& [location, e] : external_) {
    if (e.problem.empty()) continue;
    const std::string message = e.problem + " (" + std::to_string(e.tensors) + " tensors, " + std::to_string(e.bytes) + " bytes)";
    if (allowed)
      d.warning(Code::MissingWeights, message, {},
                "their shapes are known and their values are not: the model can be compiled, not run");
    else
      d.error(Code::MissingWeights, message, {},
              "put the weights beside the model, or compile without them: --allow-missing-weights");
  }
}

std::optional<TensorData> TensorSource::load(const TensorView& t, const std::string& where, Diagnostics& d, bool* missing) {
  const auto bad = [&](std::string message) {
    d.error(Code::BadTensor, std::move(message), where);
    return std::nullopt;
  };
  const auto dtype = read_dtype(t.data_type, where, d);
  if (!dtype) return std::nullopt;
  if (t.has_segment) return bad("tensors in segments are not supported");
  if (t.mixed) return bad("the data are given in more than one field");
  if (t.dims.size() > 64) return bad("rank " + std::to_string(t.dims.size()) + " is more than 64");
  TensorData data;
  data.dtype = *dtype;
  data.dims = t.dims;
  const auto count = checked_product(t.dims);
  if (!count) return bad("the sizes are negative or their product overflows");
  if (*dtype == DType::String) {
    if (t.strings.size() != static_cast<uint64_t>(*count))
      return bad("holds " + std::to_string(t.strings.size()) + " strings, the shape needs " + std::to_string(*count));
    for (std::string_view s : t.strings) data.strings.emplace_back(s);
    return data;
  }
  const auto size = byte_size(*dtype, static_cast<uint64_t>(*count));
  if (!size || *size > static_cast<uint64_t>(Dim::kMax)) return bad("the tensor is too large");
  if (t.external) {
    if (!load_external(t, &data, *size, where, d, missing)) return std::nullopt;
    return data;
  }
  const auto wrong_size = [&](uint64_t have) {
    return bad("holds " + std::to_string(have) + " bytes, the shape needs " + std::to_string(*size));
  };
  if (t.raw && t.packed_field == 0) {
    if (t.raw->size() != *size) return wrong_size(t.raw->size());
    refer(&data, *t.raw);
    return data;
  }
  const TypedField field = typed_field(*dtype);
  if (t.packed_field != 0 && t.packed_field != field.number) return bad("the data are in the list of another element type");
  const bool as_is = field.number == 4 || field.number == 10;
  if (as_is && t.packed.size() == 1 && t.loose.empty()) {
    if (t.packed[0].size() != *size) return wrong_size(t.packed[0].size());
    refer(&data, t.packed[0]);
    return data;
  }
  std::vector<std::byte> bytes;
  for (Bytes chunk : t.packed) {
    if (as_is) {
      bytes.insert(bytes.end(), chunk.begin(), chunk.end());
      continue;
    }
    std::vector<int64_t> entries;
    if (!read_packed(chunk, &entries)) return bad("the list of elements is malformed");
    for (int64_t v : entries) append(&bytes, static_cast<uint64_t>(v), field.entry_bytes);
  }
  for (uint64_t v : t.loose) append(&bytes, v, field.entry_bytes);
  if (bits(*dtype) < 8 && bytes.size() == static_cast<uint64_t>(*count) && bytes.size() != *size) {  // one element per entry
    const auto width = static_cast<size_t>(bits(*dtype)), a_byte = 8 / width;
    std::vector<std::byte> packed(*size);
    for (size_t i = 0; i < bytes.size(); ++i)
      packed[i / a_byte] |= (bytes[i] & std::byte((1 << width) - 1)) << (i % a_byte * width);
    bytes = std::move(packed);
  }
  if (bytes.size() != *size) return wrong_size(bytes.size());
  return make_data(*dtype, std::move(data.dims), bytes);
}

std::optional<TensorData> TensorSource::load_sparse(const SparseTensorView& s, const std::string& where, Diagnostics& d) {
  const auto bad = [&](std::string message) {
    d.error(Code::BadTensor, std::move(message), where);
    return std::nullopt;
  };
  TensorView value_view, index_view;
  if (!read_tensor(s.values, &value_view) || !read_tensor(s.indices, &index_view)) return bad("the sparse tensor is malformed");
  const auto values = load(value_view, where, d), indices = load(index_view, where, d);
  if (!values || !indices) return std::nullopt;
  const auto count = checked_product(s.dims);
  const auto size = count ? byte_size(values->dtype, static_cast<uint64_t>(*count)) : std::nullopt;
  if (!size || *size > static_cast<uint64_t>(kMaxSparseBytes)) return bad("the sparse tensor is too large to be made dense");
  const auto element = static_cast<size_t>(bits(values->dtype) / 8);
  const auto rank = static_cast<int64_t>(s.dims.size());
  if (element == 0 || values->dims.size() != 1 || indices->dtype != DType::I64)
    return bad("the sparse tensor has an unsupported form");
  const int64_t n = values->dims[0];
  const bool linear = indices->dims.size() == 1;
  if (indices->elements() != (linear ? n : n * rank) || indices->dims.empty() || indices->dims.size() > 2)
    return bad("the sparse indices do not fit the values");
  std::vector<std::byte> bytes(*size);
  for (int64_t i = 0; i < n; ++i) {
    int64_t at = 0;
    if (linear) at = element_as_int(*indices, i);
    for (int64_t k = 0; k < (linear ? 0 : rank); ++k) {
      const int64_t index = element_as_int(*indices, i * rank + k);
      if (index < 0 || index >= s.dims[static_cast<size_t>(k)]) return bad("a sparse index is out of range");
      at = at * s.dims[static_cast<size_t>(k)] + index;
    }
    if (at < 0 || at >= *count) return bad("a sparse index is out of range");
    std::memcpy(bytes.data() + static_cast<size_t>(at) * element, values->bytes.data() + static_cast<size_t>(i) * element,
                element);
  }
  return make_data(values->dtype, s.dims, bytes);
}

}  // namespace rlxc::onnx_import
