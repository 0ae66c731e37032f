#include "ir/type.h"

namespace rlxc {

TypeId TypeTable::intern(const Type& t) {
  std::string key;
  key.reserve(3 + t.dims.size() * 8);
  key += static_cast<char>(t.kind);
  key += static_cast<char>(t.dtype);
  key += static_cast<char>(t.ranked + 2 * t.of_sequence + 4 * static_cast<int>(t.key));
  for (Dim d : t.dims) {
    const int64_t raw = d.raw();
    key.append(reinterpret_cast<const char*>(&raw), sizeof raw);
  }
  auto [it, made] = index_.try_emplace(std::move(key), static_cast<uint32_t>(types_.size()));
  if (made) types_.push_back(t);
  return TypeId(it->second);
}

Type element_type(Type t) {
  t.kind = t.of_sequence ? TypeKind::Sequence : t.key != MapKey::None ? TypeKind::Map : TypeKind::Tensor;
  t.of_sequence = false;
  return t;
}
Type holder_type(TypeKind kind, Type element) {
  element.of_sequence = element.kind == TypeKind::Sequence;
  element.kind = kind;
  return element;
}

std::optional<int64_t> num_elements(const Type& t) {
  if (!t.is_static()) return std::nullopt;
  int64_t n = 1;
  for (Dim d : t.dims)
    if (__builtin_mul_overflow(n, d.size(), &n) || n > Dim::kMax) return std::nullopt;
  return n;
}

std::optional<uint64_t> byte_size(const Type& t) {
  const auto n = num_elements(t);
  return n ? byte_size(t.dtype, static_cast<uint64_t>(*n)) : std::nullopt;
}

std::string text(const Type& t, const DimTable& dims) {
  std::string s(name(t.dtype));
  if (t.key != MapKey::None) {
    s = "map<" + std::string(name(key_dtype(t.key))) + "," + s + ">";
  } else {
    s += '[';
    if (!t.ranked) s += '*';
    for (size_t i = 0; i < t.dims.size(); ++i) {
      if (i) s += ',';
      s += dims.text(t.dims[i]);
    }
    s += ']';
  }
  if (t.kind == TypeKind::Sequence || t.of_sequence) s = "seq<" + s + ">";
  if (t.kind == TypeKind::Optional) return "optional<" + s + ">";
  return s;
}

std::optional<Type> parse_type(std::string_view s, DimTable& table) {
  Type t;
  for (auto [prefix, kind] : {std::pair{std::string_view("optional<"), TypeKind::Optional}, {"seq<", TypeKind::Sequence}})
    if (s.starts_with(prefix) && s.ends_with('>')) {
      if (t.kind == TypeKind::Tensor) t.kind = kind;
      else t.of_sequence = true;
      s = s.substr(prefix.size(), s.size() - prefix.size() - 1);
    }
  if (s.starts_with("map<") && s.ends_with('>')) {
    const size_t comma = s.find(',');
    const auto key = comma == s.npos ? std::nullopt : dtype_from_name(s.substr(4, comma - 4));
    const auto value = key ? dtype_from_name(s.substr(comma + 1, s.size() - comma - 2)) : std::nullopt;
    if (!value || (*key != DType::I64 && *key != DType::String)) return std::nullopt;
    if (t.kind == TypeKind::Tensor) t.kind = TypeKind::Map;
    t.dtype = *value;
    t.key = *key == DType::String ? MapKey::String : MapKey::I64;
    return t;
  }
  const size_t open = s.find('[');
  if (open == s.npos || !s.ends_with(']')) return std::nullopt;
  const auto dtype = dtype_from_name(s.substr(0, open));
  if (!dtype) return std::nullopt;
  t.dtype = *dtype;
  s = s.substr(open + 1, s.size() - open - 2);
  if (s == "*") {
    t.ranked = false;
    return t;
  }
  int depth = 0;
  bool quoted = false;
  size_t begin = 0;
  for (size_t i = 0; i <= s.size() && !s.empty(); ++i) {
    if (i < s.size()) {
      if (s[i] == '\\' && quoted) ++i;
      else if (s[i] == '"') quoted = !quoted;
      else if (!quoted) depth += (s[i] == '(') - (s[i] == ')');
    }
    if (i >= s.size() || (s[i] == ',' && depth == 0 && !quoted)) {
      const auto d = table.parse(s.substr(begin, std::min(i, s.size()) - begin));
      if (!d) return std::nullopt;
      t.dims.push_back(*d);
      begin = i + 1;
    }
  }
  return t;
}

}  // namespace rlxc
