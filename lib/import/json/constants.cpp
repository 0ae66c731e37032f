// The list "constants" of a JSON graph: dtype, dims, and the location of the elements.
#include <array>

#include "import/json/document.h"
#include "support/checked.h"

namespace rlxc::import_json {
namespace {

std::optional<std::vector<std::byte>> from_base64(std::string_view s) {
  static constexpr auto kDigits = [] {
    std::array<int8_t, 256> d{};
    d.fill(-1);
    constexpr std::string_view kText = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < kText.size(); ++i) d[static_cast<unsigned char>(kText[i])] = static_cast<int8_t>(i);
    return d;
  }();
  if (s.size() % 4) return std::nullopt;
  const size_t padding = s.ends_with("==") ? 2 : s.ends_with('=') ? 1 : 0;
  std::vector<std::byte> out;
  out.reserve(s.size() / 4 * 3);
  for (size_t i = 0; i < s.size(); i += 4) {
    uint32_t word = 0;
    const size_t digits = i + 4 == s.size() ? 4 - padding : 4;
    for (size_t k = 0; k < 4; ++k) {
      const int digit = k < digits ? kDigits[static_cast<unsigned char>(s[i + k])] : 0;
      if (digit < 0) return std::nullopt;
      word = word << 6 | static_cast<uint32_t>(digit);
    }
    for (size_t k = 0; k + 1 < digits; ++k) out.push_back(static_cast<std::byte>(word >> (16 - 8 * k)));
  }
  return out;
}

bool has_numbers(DType t) {
  if (is_float(t)) return t == DType::F64 || t == DType::F32 || t == DType::F16 || t == DType::BF16;
  return (is_integer(t) || t == DType::Bool) && bits(t) >= 8;
}

bool can_hold(DType t, int64_t v) {
  const int width = bits(t);
  if (t == DType::Bool) return v == 0 || v == 1;
  if (is_signed(t)) return width == 64 || (v >= -(int64_t{1} << (width - 1)) && v < int64_t{1} << (width - 1));
  return v >= 0 && (width == 64 || v < int64_t{1} << width);
}

// Appends one number (or boolean) as a little-endian element.
void append_element(JsonReader& r, DType t, std::vector<std::byte>* out) {
  const size_t at = r.at();
  if (is_float(t)) {
    double v = 0;
    if (!r.number(&v)) return;
    const std::vector<std::byte> element = element_bytes(t, v);
    out->insert(out->end(), element.begin(), element.end());
    return;
  }
  int64_t v = 0;
  bool flag = false;
  if (r.peek() == JsonReader::Kind::Bool ? !r.boolean(&flag) : !r.integer(&v)) return;
  if (flag) v = 1;
  if (!can_hold(t, v)) return void(r.fail(std::string(name(t)) + " cannot hold " + std::to_string(v), at));
  for (int k = 0; k < bits(t) / 8; ++k) out->push_back(static_cast<std::byte>(static_cast<uint64_t>(v) >> (8 * k)));
}

}  // namespace

struct ConstantReader::Fields {
  int64_t id = -1;
  std::optional<DType> dtype;
  std::vector<int64_t> dims;
  std::string file;
  uint64_t offset = 0;
  std::optional<uint64_t> bytes;
  std::string_view contents;  // raw value of the member `how`
  std::string how;            // "values", "splat", "strings", "base64", "splat_base64" or "file"
  size_t at = 0, contents_at = 0;
};

void ConstantReader::read_list() {
  JsonReader& r = doc_.reader;
  if (!r.begin_array()) return;
  while (r.next_item()) {
    Fields f;
    f.at = r.at();
    if (!entry(&f)) continue;
    auto data = make(f);
    if (!data) continue;
    const bool missing = !doc_.options.places_only && !f.file.empty() && data->bytes.empty() && data->size_bytes() > 0;
    const DataId id = doc_.module.data.add(std::move(*data));
    if (!ids_.emplace(f.id, missing ? DataAttrs{.place = id} : DataAttrs{.data = id}).second)
      doc_.error(Code::BadJson, "two constants have the id " + std::to_string(f.id), f.at);
  }
}

bool ConstantReader::entry(Fields* f) {
  JsonReader& r = doc_.reader;
  const auto one_kind = [&](std::string_view key) {
    if (!f->how.empty())
      return doc_.error(Code::BadJson, "a constant has both \"" + f->how + "\" and \"" + std::string(key) + "\"", f->at);
    f->how = key;
    return true;
  };
  if (!r.begin_object()) return false;
  bool good = true;
  for (std::string_view key; r.next_key(&key);) {
    if (key == "id") {
      r.integer(&f->id);
    } else if (key == "dtype") {
      std::string_view s;
      if (r.string(&s)) f->dtype = dtype_from_name(s);
    } else if (key == "dims") {
      if (!r.begin_array()) break;
      while (r.next_item()) r.integer(&f->dims.emplace_back());
    } else if (key == "file") {
      good &= one_kind(key);
      r.string(&f->file);
    } else if (key == "offset") {
      r.unsigned_integer(&f->offset);
    } else if (key == "bytes") {
      r.unsigned_integer(&f->bytes.emplace());
    } else if (key == "values" || key == "splat" || key == "strings" || key == "base64" || key == "splat_base64") {
      good &= one_kind(key);
      f->contents_at = r.at();
      r.raw(&f->contents);
    } else {
      r.skip();
    }
  }
  if (!r.ok() || !good) return false;
  if (f->id < 0) return doc_.error(Code::BadJson, "a constant needs an \"id\" that is not negative", f->at);
  if (!f->dtype) return doc_.error(Code::BadJson, "constant " + std::to_string(f->id) + " needs a known \"dtype\"", f->at);
  if (f->how.empty())
    return doc_.error(
        Code::BadJson,
        "constant " + std::to_string(f->id) + " needs contents: values, splat, strings, base64, splat_base64 or file", f->at);
  return true;
}

std::optional<TensorData> ConstantReader::make(const Fields& f) {
  const auto bad = [&](const std::string& message) {
    doc_.error(Code::BadTensor, "constant " + std::to_string(f.id) + " " + message, f.at);
    return std::nullopt;
  };
  const auto count = checked_product(f.dims);
  if (!count || *count > Dim::kMax || f.dims.size() > 64) return bad("has dims that are negative, too many or too large");
  const bool splat = f.how.starts_with("splat");
  TensorData d;
  d.dtype = *f.dtype;
  d.dims = f.dims;
  if ((d.dtype == DType::String) != (f.how == "strings")) return bad("has contents of another kind than its dtype");
  JsonReader r(f.contents);
  const auto malformed = [&] {
    return bad("has malformed \"" + f.how + "\": " + r.error() + " (" + doc_.lines.place(f.contents_at + r.error_at()) + ")");
  };
  if (f.how == "strings") {
    for (r.begin_array(); r.next_item();) r.string(&d.strings.emplace_back());
    if (!r.ok()) return malformed();
    if (static_cast<int64_t>(d.strings.size()) != *count)
      return bad("has " + std::to_string(d.strings.size()) + " strings, its dims ask for " + std::to_string(*count));
    return d;
  }
  const auto bytes = byte_size(d.dtype, static_cast<uint64_t>(splat ? 1 : *count));
  if (!bytes) return bad("is too large");
  if (f.how == "file") {
    if (!file(f, &d, *bytes)) return std::nullopt;
    return d;
  }
  std::vector<std::byte> content;
  if (f.how.ends_with("base64")) {
    std::string_view s;
    if (!r.string(&s)) return malformed();
    auto decoded = from_base64(s);
    if (!decoded) return bad("has malformed base64");
    content = std::move(*decoded);
  } else if (!has_numbers(d.dtype)) {
    return bad("needs \"base64\": elements of type " + std::string(name(d.dtype)) + " are not written as numbers");
  } else if (splat) {
    append_element(r, d.dtype, &content);
  } else if (r.begin_array()) {
    while (r.next_item()) append_element(r, d.dtype, &content);
  }
  if (!r.ok()) return malformed();
  if (content.size() != *bytes)
    return bad("has " + std::to_string(content.size()) + " bytes, its dims ask for " + std::to_string(*bytes));
  return splat ? make_splat(d.dtype, d.dims, content) : make_data(d.dtype, d.dims, content);
}

bool ConstantReader::file(const Fields& f, TensorData* d, uint64_t bytes) {
  const auto bad = [&](Code code, const std::string& message) {
    return doc_.error(code, "constant " + std::to_string(f.id) + " " + message, f.at);
  };
  if (f.bytes && *f.bytes != bytes)
    return bad(Code::BadTensor, "has " + std::to_string(*f.bytes) + " bytes, its dims ask for " + std::to_string(bytes));
  d->file = f.file;
  d->offset = f.offset;
  auto it = files_.find(f.file);
  if (it == files_.end()) {
    Diagnostics found;
    auto opened = resolve_external(doc_.folder, f.file, found);
    for (const Diagnostic& item : found.items()) {
      const bool allowed = item.code == Code::MissingWeights && doc_.options.allow_missing_weights;
      if (allowed && doc_.options.places_only) continue;
      if (allowed) doc_.diagnostics.warning(item.code, item.message, item.where, item.help);
      else doc_.diagnostics.add(item);
    }
    it = files_.emplace(f.file, opened ? std::make_shared<const MappedFile>(std::move(*opened)) : nullptr).first;
  }
  const MappedFile* file = it->second.get();
  if (!file) return doc_.options.allow_missing_weights;
  if (f.offset > file->size() || bytes > file->size() - f.offset)
    return bad(Code::MissingWeights, "ends beyond the " + std::to_string(file->size()) + " bytes of \"" + f.file + "\"");
  d->bytes = file->bytes().subspan(f.offset, bytes);
  d->owner = it->second;
  return true;
}

bool ConstantReader::attach(Graph& g, NodeId n, int64_t id, size_t at) {
  const auto it = ids_.find(id);
  if (it == ids_.end())
    return doc_.error(Code::BadJson, "there is no constant with the id " + std::to_string(id) + " in \"constants\"", at);
  if (!it->second.data.valid() && g.op(n) == OpKind::Constant) {
    // A constant without its file becomes a parameter without values. All uses have been read.
    const TypeId type = g.type_id(g.result(n));
    const NodeId param = g.make_node(OpKind::Param, {}, doc_.module.attrs.intern(it->second), {&type, 1}, {}, n);
    g.set_value_name(g.result(param), doc_.module.symbol("constant_" + std::to_string(id)));
    g.replace_all_uses(g.result(n), g.result(param));
    g.erase(n);
    return true;
  }
  g.set_attrs(n, doc_.module.attrs.intern(it->second));
  return true;
}

}  // namespace rlxc::import_json
