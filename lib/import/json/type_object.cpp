// Types as JSON objects: {"dtype": "f32", "dims": ["batch", 4]}, with "kind" where it is no tensor.
#include "import/json/document.h"
#include "ir/type_kind.h"

namespace rlxc::import_json {
namespace {

class TypeReader {
 public:
  TypeReader(std::string_view json, DimTable& dims) : r_(json), dims_(dims) {}

  std::optional<Type> run(std::string* message) {
    type_.ranked = false;
    r_.begin_object();
    for (std::string_view key; r_.next_key(&key);) {
      if (key == "kind") kind(&type_.kind);
      else if (key == "of") of();
      else if (key == "keys") keys();
      else if (key == "dtype") dtype();
      else if (key == "dims") dims();
      else r_.skip();
    }
    if (r_.ok() && !complete()) r_.fail("it needs dtype, the dims of a tensor, and the keys of a map");
    if (r_.ok()) return std::move(type_);
    *message = "a type is an object such as {\"dtype\": \"f32\", \"dims\": [\"batch\", 4]}: " + r_.error();
    return std::nullopt;
  }

 private:
  bool complete() {
    const bool is_map = type_.key != MapKey::None;
    if (is_map) type_.ranked = true;  // as parse_type leaves it
    const bool holds = type_.kind == TypeKind::Sequence || type_.kind == TypeKind::Optional;
    return has_dtype_ && (type_.ranked || holds) && (holds || is_map == (type_.kind == TypeKind::Map)) &&
           (!type_.of_sequence || type_.kind == TypeKind::Optional) && !(is_map && !type_.dims.empty());
  }

  void unknown(std::string_view word) { r_.fail("\"" + std::string(word) + "\" is unknown"); }

  void kind(TypeKind* out) {
    std::string_view s;
    if (!r_.string(&s)) return;
    for (TypeKind k : {TypeKind::Tensor, TypeKind::Sequence, TypeKind::Optional, TypeKind::Map})
      if (s == name(k)) return void(*out = k);
    unknown(s);
  }

  void of() {
    TypeKind k = TypeKind::Tensor;
    kind(&k);
    type_.of_sequence = k == TypeKind::Sequence;
  }

  void keys() {
    std::string_view s;
    if (!r_.string(&s)) return;
    if (s != name(DType::String) && s != name(DType::I64)) return unknown(s);
    type_.key = s == name(DType::String) ? MapKey::String : MapKey::I64;
  }

  void dtype() {
    std::string_view s;
    if (!r_.string(&s)) return;
    const auto d = dtype_from_name(s);
    if (!d) return unknown(s);
    type_.dtype = *d;
    has_dtype_ = true;
  }

  void dims() {
    type_.ranked = true;
    for (r_.begin_array(); r_.next_item();) {
      std::string_view s;
      if (!(r_.peek() == JsonReader::Kind::Number ? r_.raw(&s) : r_.string(&s))) return;
      const auto d = dims_.parse(s);
      if (!d) return unknown(s);
      type_.dims.push_back(*d);
    }
  }

  JsonReader r_;
  DimTable& dims_;
  Type type_;
  bool has_dtype_ = false;
};

}  // namespace

std::optional<TypeId> Document::type_object(std::string_view json, std::string* message) {
  std::string key(json);
  if (const auto it = types_.find(key); it != types_.end()) return it->second;
  const auto type = TypeReader(json, module.dims).run(message);
  if (!type) return std::nullopt;
  const TypeId id = module.types.intern(*type);
  types_.emplace(std::move(key), id);
  return id;
}

}  // namespace rlxc::import_json
