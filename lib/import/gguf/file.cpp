#include "import/gguf/file.h"

#include <bit>
#include <cstring>

#include "support/checked.h"
#include "support/text.h"

namespace rlxc::gguf_import {
namespace {

constexpr std::string_view kMagic = "GGUF", kAlignmentKey = "general.alignment";
constexpr uint32_t kOldestVersion = 2, kNewestVersion = 3;

// Bytes of an element; 0: a string or a list.
constexpr size_t kSizes[kValueTypes] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

struct TensorType {
  uint32_t number;
  Storage storage;
};
constexpr TensorType kTensorTypes[] = {
    {0, {{}, DType::F32}},     {1, {{}, DType::F16}},       {2, {BlockFormat::Q4_0}},    {3, {BlockFormat::Q4_1}},
    {6, {BlockFormat::Q5_0}},  {7, {BlockFormat::Q5_1}},    {8, {BlockFormat::Q8_0}},    {10, {BlockFormat::Q2_K}},
    {11, {BlockFormat::Q3_K}}, {12, {BlockFormat::Q4_K}},   {13, {BlockFormat::Q5_K}},   {14, {BlockFormat::Q6_K}},
    {15, {BlockFormat::Q8_K}}, {20, {BlockFormat::IQ4_NL}}, {23, {BlockFormat::IQ4_XS}}, {24, {{}, DType::I8}},
    {25, {{}, DType::I16}},    {26, {{}, DType::I32}},      {27, {{}, DType::I64}},      {28, {{}, DType::F64}},
    {30, {{}, DType::BF16}},   {34, {BlockFormat::TQ1_0}},  {35, {BlockFormat::TQ2_0}},  {39, {BlockFormat::MXFP4}},
    {40, {BlockFormat::NVFP4}}};

// Why a type of tensors is not read.
std::string refusal(uint32_t type) {
  static constexpr std::pair<uint32_t, std::string_view> kCodeBooks[] = {
      {16, "iq2_xxs"}, {17, "iq2_xs"}, {18, "iq3_xxs"}, {19, "iq1_s"}, {21, "iq3_s"}, {22, "iq2_s"}, {29, "iq1_m"}};
  for (const auto& [number, name] : kCodeBooks)
    if (number == type)
      return std::string(name) + " is not supported: its codes stand for entries of code books, which no formula gives";
  return "its type " + std::to_string(type) + " is not supported";
}

}  // namespace

bool ElementReader::next() {
  if (left_ == 0) return false;
  --left_;
  size_t size = kSizes[static_cast<size_t>(type_)];
  if (type_ == ValueType::String) {
    uint64_t length = 0;
    std::memcpy(&length, rest_.data(), sizeof length);
    rest_ = rest_.subspan(sizeof length);
    size = length;
  }
  element_ = rest_.first(size);
  rest_ = rest_.subspan(size);
  return true;
}

uint64_t ElementReader::bits() const {
  uint64_t v = 0;
  std::memcpy(&v, element_.data(), std::min(element_.size(), sizeof v));
  return v;
}

std::string_view ElementReader::text() const { return {reinterpret_cast<const char*>(element_.data()), element_.size()}; }

std::optional<int64_t> ElementReader::integer() const {
  const uint64_t v = bits();
  switch (type_) {
    case ValueType::I8: return static_cast<int8_t>(v);
    case ValueType::I16: return static_cast<int16_t>(v);
    case ValueType::I32: return static_cast<int32_t>(v);
    case ValueType::Bool: return v != 0;
    case ValueType::U8:
    case ValueType::U16:
    case ValueType::U32:
    case ValueType::I64: return static_cast<int64_t>(v);
    case ValueType::U64: return v >> 63 ? std::nullopt : std::optional(static_cast<int64_t>(v));
    default: return std::nullopt;
  }
}

std::optional<double> ElementReader::number() const {
  if (type_ == ValueType::F32) return static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(bits())));
  if (type_ == ValueType::F64) return std::bit_cast<double>(bits());
  const auto i = integer();
  return i ? std::optional(static_cast<double>(*i)) : std::nullopt;
}

// Reads forward. After an error, every read fails.
class FileReader {
 public:
  FileReader(std::shared_ptr<const MappedFile> file, Diagnostics& d)
      : all_(file->bytes()), diagnostics_(d), out_(std::make_shared<File>()) {
    out_->mapped_ = std::move(file);
  }

  std::shared_ptr<const File> read() {
    uint64_t tensors = 0, keys = 0;
    if (!header(&tensors, &keys)) return nullptr;
    for (uint64_t i = 0; i < keys; ++i)
      if (!entry()) return nullptr;
    for (uint64_t i = 0; i < tensors; ++i)
      if (!tensor()) return nullptr;
    return place_tensors() ? std::move(out_) : nullptr;
  }

 private:
  bool fail(Code code, std::string message, std::string where = "", std::string help = "") {
    diagnostics_.error(code, std::move(message), std::move(where), std::move(help));
    return false;
  }
  bool cut_short(const std::string& where) {
    return fail(Code::NotAModel, "the GGUF file ends within " + where, {}, "check that it was copied whole");
  }

  template <class T>
  bool number(T* v, const std::string& where) {
    if (!in_bounds(at_, sizeof *v, all_.size())) return cut_short(where);
    std::memcpy(v, all_.data() + at_, sizeof *v);
    at_ += sizeof *v;
    return true;
  }

  bool text(std::string_view* s, uint64_t limit, const std::string& where) {
    uint64_t length = 0;
    if (!number(&length, where)) return false;
    if (length > limit) return fail(Code::TooLarge, "a text of " + std::to_string(length) + " bytes", where, limit_text(limit));
    if (!in_bounds(at_, length, all_.size())) return cut_short(where);
    *s = {reinterpret_cast<const char*>(all_.data() + at_), static_cast<size_t>(length)};
    at_ += length;
    return true;
  }

  static std::string limit_text(uint64_t limit) { return "the limit is " + std::to_string(limit); }

  bool header(uint64_t* tensors, uint64_t* keys) {
    uint32_t version = 0;
    at_ = kMagic.size();
    if (!number(&version, "the header")) return false;
    if (version > 0xFFFF && (version & 0xFFFF) == 0)
      return fail(Code::NotAModel, "the GGUF file is big-endian", {}, "convert it on a little-endian machine");
    if (version < kOldestVersion || version > kNewestVersion)
      return fail(Code::NotAModel, "version " + std::to_string(version) + " of GGUF is not supported; versions 2 and 3 are");
    if (!number(tensors, "the header") || !number(keys, "the header")) return false;
    if (*tensors > kMaxTensors)
      return fail(Code::TooLarge, "the header declares " + std::to_string(*tensors) + " tensors", {}, limit_text(kMaxTensors));
    if (*keys > kMaxKeys)
      return fail(Code::TooLarge, "the header declares " + std::to_string(*keys) + " keys", {}, limit_text(kMaxKeys));
    return true;
  }

  bool value_type(uint32_t type, const std::string& where) {
    return type < kValueTypes || fail(Code::NotAModel, "a value has the unknown type " + std::to_string(type), where);
  }

  // Skips `v->count` elements of the type.
  bool elements(Value* v, const std::string& where) {
    const uint64_t first = at_;
    if (v->type == ValueType::String) {
      std::string_view ignored;
      for (uint64_t i = 0; i < v->count; ++i)
        if (!text(&ignored, kMaxStringBytes, where)) return false;
    } else {
      const auto size = checked_mul(v->count, kSizes[static_cast<size_t>(v->type)]);
      if (!size || !in_bounds(at_, *size, all_.size())) return cut_short(where);
      at_ += *size;
    }
    v->bytes = all_.subspan(first, at_ - first);
    return true;
  }

  bool entry() {
    std::string_view key;
    if (!text(&key, kMaxKeyBytes, "the keys")) return false;
    const std::string where = "key " + quote(key);
    Value v;
    uint32_t type = 0;
    if (!number(&type, where) || !value_type(type, where)) return false;
    v.type = static_cast<ValueType>(type);
    v.list = v.type == ValueType::Array;
    if (v.list) {
      if (!number(&type, where) || !value_type(type, where) || !number(&v.count, where)) return false;
      v.type = static_cast<ValueType>(type);
      if (v.type == ValueType::Array) return fail(Code::NotAModel, "lists of lists are not supported", where);
      if (v.count > kMaxElements)
        return fail(Code::TooLarge, "a list of " + std::to_string(v.count) + " elements", where, limit_text(kMaxElements));
    }
    if (!elements(&v, where)) return false;
    if (!out_->metadata_.emplace(key, v).second) return fail(Code::DuplicateName, "the key is given twice", where);
    return true;
  }

  bool tensor() {
    std::string_view name;
    if (!text(&name, kMaxNameBytes, "the list of tensors")) return false;
    const std::string where = "tensor " + quote(name);
    Tensor t;
    t.name = name;
    uint32_t axes = 0, type = 0;
    if (!number(&axes, where)) return false;
    if (axes > kMaxAxes) return fail(Code::BadTensor, std::to_string(axes) + " axes", where, limit_text(kMaxAxes));
    t.dims.resize(axes);
    for (uint32_t i = axes; i-- > 0;) {
      uint64_t size = 0;
      if (!number(&size, where)) return false;
      if (size == 0 || size >> 56) return fail(Code::BadTensor, "a size is " + std::to_string(size), where);
      t.dims[i] = static_cast<int64_t>(size);
    }
    if (!number(&type, where) || !number(&t.offset, where)) return false;
    const auto* row = std::ranges::find(kTensorTypes, type, &TensorType::number);
    if (row == std::end(kTensorTypes)) return fail(Code::UnsupportedAttribute, refusal(type), where);
    t.storage = row->storage;
    if (!out_->tensors_.emplace(name, std::move(t)).second) return fail(Code::DuplicateName, "the tensor is given twice", where);
    return true;
  }

  std::optional<uint64_t> alignment() {
    const Value* v = out_->find(kAlignmentKey);
    if (!v) return 32;
    ElementReader r(*v);
    const auto n = !v->list && v->type == ValueType::U32 && r.next() ? r.integer() : std::nullopt;
    if (n && std::has_single_bit(static_cast<uint64_t>(*n)) && static_cast<uint64_t>(*n) <= kMaxAlignment)
      return static_cast<uint64_t>(*n);
    fail(Code::BadAttribute, "the alignment must be a power of two, of type u32", "key " + quote(kAlignmentKey),
         limit_text(kMaxAlignment));
    return std::nullopt;
  }

  static std::optional<uint64_t> size_of(const Tensor& t) {
    const auto count = checked_product(t.dims);
    if (!count) return std::nullopt;
    const auto n = static_cast<uint64_t>(*count);
    if (!t.storage.block) return byte_size(t.storage.dtype, n);
    return checked_mul(n / static_cast<uint64_t>(block_elements(*t.storage.block)),
                       static_cast<uint64_t>(block_bytes(*t.storage.block)));
  }

  bool place_tensors() {
    const auto aligned = alignment();
    if (!aligned) return false;
    const auto data = align_up(at_, *aligned);
    if (!data) return cut_short("the list of tensors");
    out_->data_ = std::min<uint64_t>(*data, all_.size());
    for (auto& [name, t] : out_->tensors_) {
      const std::string where = "tensor " + quote(name);
      if (t.storage.block && (t.dims.empty() || t.dims.back() % block_elements(*t.storage.block) != 0))
        return fail(Code::BadTensor, "its rows are not whole blocks of " + std::to_string(block_elements(*t.storage.block)),
                    where);
      if (t.offset % *aligned != 0)
        return fail(Code::BadTensor, "its offset " + std::to_string(t.offset) + " is not a multiple of the alignment", where);
      const auto size = size_of(t);
      const auto from = checked_add(*data, t.offset);
      if (!size || !from || !in_bounds(*from, *size, all_.size()))
        return fail(Code::BadTensor, "its data lie beyond the end of the file", where, "check that it was copied whole");
      t.offset = *from;
      t.bytes = all_.subspan(*from, *size);
    }
    return true;
  }

  Bytes all_;
  uint64_t at_ = 0;
  Diagnostics& diagnostics_;
  std::shared_ptr<File> out_;
};

std::shared_ptr<const File> File::read(std::shared_ptr<const MappedFile> file, Diagnostics& d) {
  return FileReader(std::move(file), d).read();
}

const Value* File::find(std::string_view key) const {
  const auto at = metadata_.find(key);
  return at == metadata_.end() ? nullptr : &at->second;
}

}  // namespace rlxc::gguf_import
