#include "import/json/json_file.h"

#include <algorithm>

#include "support/json_form.h"
#include "support/json_reader.h"

namespace rlxc {
namespace {

using nlohmann::json;

constexpr uint64_t kLargestFile = 64 << 20;
constexpr size_t kMostNodes = 10'000;

bool is_list_of(const json& j, bool (json::*is)() const noexcept) {
  return j.is_array() && std::ranges::all_of(j, [&](const json& e) { return (e.*is)(); });
}

std::string_view text_of(const MappedFile& f) { return {reinterpret_cast<const char*>(f.data()), f.size()}; }

// Reads the text beside its tree until the part begins.
bool find_part(JsonReader& r, const json& here, const json& part, size_t* at) {
  if (&here == &part) {
    *at = r.at();
    return true;
  }
  if (here.is_object() && r.begin_object()) {
    for (std::string_view key; r.next_key(&key);) {
      const auto item = here.find(std::string(key));
      if (item == here.end()) r.skip();
      else if (find_part(r, *item, part, at)) return true;
    }
  } else if (here.is_array() && r.begin_array()) {
    for (auto item = here.begin(); r.next_item() && item != here.end(); ++item)
      if (find_part(r, *item, part, at)) return true;
  } else {
    r.skip();
  }
  return false;
}

}  // namespace

std::string JsonFile::place(const json& part) const {
  JsonReader r(text_of(file));
  size_t at = 0;
  find_part(r, tree, part, &at);
  return LineIndex(text_of(file)).place(at);
}

std::optional<JsonFile> read_json_object(const std::string& path, std::string_view format, Diagnostics& d) {
  auto file = open_model_file(path, d);
  if (!file) return std::nullopt;
  if (file->size() > kLargestFile) {
    d.error(Code::TooLarge, path + " is larger than 64 MiB");
    return std::nullopt;
  }
  const std::string_view text = text_of(*file);
  JsonReader syntax(text);
  if (!syntax.skip() || !syntax.finish()) {
    d.error(Code::BadJson, path + ": " + LineIndex(text).place(syntax.error_at()) + ": " + syntax.error());
    return std::nullopt;
  }
  json j = json::parse(text.begin(), text.end(), nullptr, false);
  if (j.is_discarded() || !j.is_object()) {
    d.error(Code::BadJson, path + " is not a JSON object");
    return std::nullopt;
  }
  const auto it = j.find("format");
  if (it == j.end() || *it != format) {
    d.error(Code::BadJson, path + " lacks \"format\": \"" + std::string(format) + "\"");
    return std::nullopt;
  }
  if (const auto fault = form_fault(text)) {
    d.error(Code::BadJson, path + ": " + LineIndex(text).place(fault->at) + ": " + fault->message);
    return std::nullopt;
  }
  return JsonFile{std::move(*file), std::move(j)};
}

bool JsonParts::fail(const std::string& where, const std::string& why) {
  if (error_.empty()) error_ = file_.place(*at_) + ": " + where + ": " + why;
  return false;
}

bool JsonParts::known(const json& object, const std::string& where, std::initializer_list<std::string_view> keys) {
  set_place(object);
  if (!object.is_object()) return fail(where, "must be an object");
  for (const auto& item : object.items())
    if (std::ranges::find(keys, item.key()) == keys.end()) {
      set_place(item.value());
      return fail(where, "\"" + item.key() + "\" is not known here");
    }
  return true;
}

bool JsonParts::text(const json& object, std::string_view key, const std::string& where, std::string* out, bool required) {
  set_place(object);
  const auto at = object.find(key);
  if (at != object.end()) set_place(*at);
  if (at == object.end()) return required ? fail(where, "lacks \"" + std::string(key) + "\"") : true;
  if (!at->is_string() || at->get_ref<const std::string&>().empty())
    return fail(where, "\"" + std::string(key) + "\" must be a name");
  *out = at->get<std::string>();
  return true;
}

bool JsonParts::texts(const json& list, const std::string& where, std::vector<std::string>* out) {
  set_place(list);
  if (!is_list_of(list, &json::is_string)) return fail(where, "must be a list of names");
  for (const json& e : list) out->push_back(e.get<std::string>());
  return true;
}

bool JsonParts::value(const json& j, const std::string& where, AttrValue* out) {
  set_place(j);
  if (j.is_boolean()) *out = j.get<bool>();
  else if (j.is_number_integer() && !(j.is_number_unsigned() && j.get<uint64_t>() > INT64_MAX)) *out = j.get<int64_t>();
  else if (j.is_number()) *out = j.get<double>();
  else if (j.is_string()) *out = j.get<std::string>();
  else if (is_list_of(j, &json::is_number_integer)) *out = j.get<std::vector<int64_t>>();
  else if (is_list_of(j, &json::is_number)) *out = j.get<std::vector<double>>();
  else if (is_list_of(j, &json::is_string)) *out = j.get<std::vector<std::string>>();
  else return fail(where, "must be a number, a word, true, false, or a list of numbers or words");
  return true;
}

bool JsonParts::shape(const json& list, const std::string& where, ShapePattern* out) {
  set_place(list);
  if (!list.is_array()) return fail(where, "must be a list of sizes");
  DimTable dims;
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string dim = list[i].is_string()            ? list[i].get<std::string>()
                            : list[i].is_number_unsigned() ? std::to_string(list[i].get<uint64_t>())
                                                           : std::string();
    if (i == 0 && dim == "...") out->any_front = true;
    else if (dim.empty() || !dims.parse(dim)) return fail(where, "size " + std::to_string(i) + " is no number or expression");
    else out->dims.push_back(dim);
  }
  return true;
}

bool JsonParts::node(const json& j, const std::string& where, FragmentNode* out) {
  std::string op;
  if (!known(j, where, {"op", "in", "out", "attrs"}) || !text(j, "op", where, &op)) return false;
  const auto kind = op_from_name(op);
  if (!kind || has_trait(*kind, kLeaf | kTerminator | kBody))
    return fail(where, "there is no operation \"" + op + "\" for files");
  out->op = *kind;
  if (const auto in = j.find("in"); in != j.end()) {
    if (!in->is_array()) return fail(where, "\"in\" must be a list of names and numbers");
    for (const json& e : *in) {
      FragmentOperand o;
      if (e.is_number()) o.number = e.get<double>();
      else if (e.is_string() && e.get_ref<const std::string&>().starts_with('$')) o.parameter = e.get<std::string>().substr(1);
      else if (e.is_string() && !e.get_ref<const std::string&>().empty()) o.name = e.get<std::string>();
      else return fail(where, "\"in\" must be a list of names and numbers");
      out->in.push_back(std::move(o));
    }
  }
  const auto result = j.find("out");
  if (result == j.end()) return fail(where, "lacks \"out\"");
  if (result->is_string()) out->out.push_back(result->get<std::string>());
  else if (!texts(*result, where + ".out", &out->out)) return false;
  if (const auto attrs = j.find("attrs"); attrs != j.end()) {
    set_place(*attrs);
    if (!attrs->is_object()) return fail(where, "\"attrs\" must be an object");
    const AttrFields own = attr_fields(default_attrs(*kind), DimTable(), true, *kind);
    for (const auto& item : attrs->items()) {
      AttrValue v;
      if (!value(item.value(), where + "." + item.key(), &v)) return false;
      if (std::ranges::find(own, item.key(), &AttrFields::value_type::first) == own.end())
        return fail(where, "unknown attribute \"" + item.key() + "\" of " + op);
      Attrs scratch = default_attrs(*kind);
      DimTable dims;
      std::string why;
      if (!parameter_name(v) && !set_attr_field(scratch, item.key(), v, dims, &why)) return fail(where + "." + item.key(), why);
      out->attrs.emplace_back(item.key(), std::move(v));
    }
  }
  return true;
}

bool JsonParts::nodes(const json& list, const std::string& where, std::vector<FragmentNode>* out) {
  set_place(list);
  if (!list.is_array() || list.size() > kMostNodes)
    return fail(where, "must be a list of at most " + std::to_string(kMostNodes) + " nodes");
  for (size_t i = 0; i < list.size(); ++i)
    if (!node(list[i], where + "[" + std::to_string(i) + "]", &out->emplace_back())) return false;
  return true;
}

}  // namespace rlxc
