#include "driver/op_file.h"

#include <algorithm>

#include "backend/backend.h"
#include "import/json/json_file.h"

namespace rlxc {
namespace {

using nlohmann::json;

constexpr std::string_view kKinds[] = {"int", "float", "string", "ints", "floats", "strings"};

class OpReader {
 public:
  explicit OpReader(JsonParts& parts) : parts_(parts) {}

  bool operation(const json& j, const std::string& where, OpDefinition* op) {
    if (!parts_.known(j, where,
                      {"name", "domain", "doc", "attributes", "inputs", "outputs", "body", "vjp", "jvp", "vmap", "kernels"}) ||
        !parts_.text(j, "name", where, &op->name) || !parts_.text(j, "domain", where, &op->domain))
      return false;
    const std::string own = "operation \"" + op->domain + "." + op->name + "\"";
    if (op->domain == "ai.onnx") return parts_.fail(own, "the domain belongs to the standard");
    if (j.contains("attributes") && !parameters(j["attributes"], own + ".attributes", op)) return false;
    parts_.set_place(j);
    for (const auto& [key, ports] : {std::pair("inputs", &op->inputs), std::pair("outputs", &op->outputs)})
      if (!j.contains(key)) return parts_.fail(own, std::string("lacks \"") + key + "\"");
      else if (!port_list(j[key], own + "." + key, ports)) return false;
    parts_.set_place(j);
    if (op->outputs.empty()) return parts_.fail(own, "needs an output");
    if (!unique_names(*op, own)) return false;
    if (!j.contains("body")) return parts_.fail(own, "lacks \"body\"");
    for (const OpPort& p : op->outputs) op->body.outputs.push_back(p.name);
    if (!parts_.nodes(j["body"], own + ".body", &op->body.nodes)) return false;
    for (const auto& [key, body] : {std::pair("vjp", &op->vjp), std::pair("jvp", &op->jvp), std::pair("vmap", &op->vmap)})
      if (j.contains(key) && !rule(j[key], own + "." + key, &body->emplace())) return false;
    return !j.contains("kernels") || kernels(j["kernels"], own + ".kernels", op);
  }

 private:
  bool parameters(const json& j, const std::string& where, OpDefinition* op) {
    if (!j.is_object()) return parts_.fail(where, "must be an object");
    for (const auto& item : j.items()) {
      const std::string own = where + "." + item.key();
      OpParameter& p = op->parameters.emplace_back();
      p.name = item.key();
      std::string kind;
      if (!parts_.known(item.value(), own, {"type", "default"}) || !parts_.text(item.value(), "type", own, &kind)) return false;
      const auto at = std::ranges::find(kKinds, kind);
      if (at == std::end(kKinds)) return parts_.fail(own, "\"type\" must be int, float, string, ints, floats or strings");
      p.kind = static_cast<ParameterKind>(at - kKinds);
      if (!item.value().contains("default")) continue;
      AttrValue v;
      if (!parts_.value(item.value()["default"], own + ".default", &v)) return false;
      if (const auto* i = std::get_if<int64_t>(&v); i && p.kind == ParameterKind::Float) v = static_cast<double>(*i);
      if (const auto* list = std::get_if<std::vector<int64_t>>(&v); list && p.kind == ParameterKind::Floats)
        v = std::vector<double>(list->begin(), list->end());
      if (v.index() != static_cast<size_t>(p.kind) + 1) return parts_.fail(own, "\"default\" is of another type");
      p.fallback = std::move(v);
    }
    return true;
  }

  bool port_list(const json& j, const std::string& where, std::vector<OpPort>* out) {
    if (!j.is_array() || j.size() > 1000) return parts_.fail(where, "must be a list");
    for (size_t i = 0; i < j.size(); ++i) {
      const std::string own = where + "[" + std::to_string(i) + "]";
      OpPort& p = out->emplace_back();
      std::string type;
      if (!parts_.known(j[i], own, {"name", "type", "shape"}) || !parts_.text(j[i], "name", own, &p.name) ||
          !parts_.text(j[i], "type", own, &type))
        return false;
      p.dtype = dtype_from_name(type);
      if (!p.dtype) p.variable = type;
      if (!p.dtype && (type[0] < 'A' || type[0] > 'Z'))
        return parts_.fail(own, "\"type\" must be an element type, or a capital letter that stands for one");
      if (!j[i].contains("shape")) return parts_.fail(own, "lacks \"shape\"");
      if (!parts_.shape(j[i]["shape"], own + ".shape", &p.shape)) return false;
    }
    return true;
  }

  bool unique_names(const OpDefinition& op, const std::string& where) {
    std::vector<std::string> names;
    for (const auto* ports : {&op.inputs, &op.outputs})
      for (const OpPort& p : *ports) names.push_back(p.name);
    std::ranges::sort(names);
    const auto twice = std::ranges::adjacent_find(names);
    return twice == names.end() || parts_.fail(where, "the name \"" + *twice + "\" is given twice");
  }

  bool rule(const json& j, const std::string& where, OpBody* body) {
    if (!parts_.known(j, where, {"nodes", "outputs"})) return false;
    if (!j.contains("nodes") || !j.contains("outputs")) return parts_.fail(where, "needs \"nodes\" and \"outputs\"");
    return parts_.nodes(j["nodes"], where + ".nodes", &body->nodes) &&
           parts_.texts(j["outputs"], where + ".outputs", &body->outputs);
  }

  bool kernels(const json& j, const std::string& where, OpDefinition* op) {
    if (!j.is_object()) return parts_.fail(where, "must be an object");
    for (const auto& item : j.items()) {
      const std::string own = where + "." + item.key();
      const Backend* b = find_backend(item.key());
      if (!b || !b->info.language) return parts_.fail(own, "is no target with kernels");
      OpKernel& k = op->kernels.emplace_back();
      k.target = item.key();
      if (!kernel(item.value(), own, &k)) return false;
      if (!capability(b->info)->mapping.workgroups && (k.grid.size() > 1 || !k.threads.empty()))
        return parts_.fail(own, "has a \"grid\" of at most one extent and no \"threads\": iterations are divided among threads");
    }
    return true;
  }

  bool kernel(const json& j, const std::string& where, OpKernel* k) {
    if (!parts_.known(j, where, {"source", "grid", "threads", "types"})) return false;
    std::vector<std::string> lines;
    if (!j.contains("source")) return parts_.fail(where, "lacks \"source\"");
    if (!parts_.texts(j["source"], where + ".source", &lines)) return false;
    for (const std::string& line : lines) k->source += line + "\n";
    // Other characters could hide what the text says.
    if (std::ranges::any_of(
            lines, [](const std::string& s) { return std::ranges::any_of(s, [](char c) { return c < ' ' || c > '~'; }); }))
      return parts_.fail(where + ".source", "must be lines of printable ASCII characters");
    ShapePattern grid;
    if (j.contains("grid") && !parts_.shape(j["grid"], where + ".grid", &grid)) return false;
    k->grid = std::move(grid.dims);
    if (grid.any_front || k->grid.size() > kAxes) return parts_.fail(where + ".grid", "has at most three extents");
    AttrValue threads = std::vector<int64_t>();
    if (j.contains("threads") && !parts_.value(j["threads"], where + ".threads", &threads)) return false;
    const auto* counts = std::get_if<std::vector<int64_t>>(&threads);
    if (!counts || counts->size() > kAxes || std::ranges::any_of(*counts, [](int64_t n) { return n < 1 || n > 1024; }))
      return parts_.fail(where + ".threads", "must be at most three numbers between 1 and 1024");
    k->threads = *counts;
    return !j.contains("types") || types(j["types"], where + ".types", k);
  }

  bool types(const json& j, const std::string& where, OpKernel* k) {
    if (!j.is_object()) return parts_.fail(where, "must be an object");
    for (const auto& item : j.items()) {
      std::string name;
      if (!parts_.text(j, item.key(), where, &name)) return false;
      const auto t = dtype_from_name(name);
      if (!t) return parts_.fail(where, "\"" + name + "\" is no element type");
      k->dtypes[item.key()] = *t;
    }
    return true;
  }

  static constexpr size_t kAxes = 3;
  JsonParts& parts_;
};

}  // namespace

bool read_operations(const std::string& path, std::vector<OpDefinition>* out, Diagnostics& d) {
  const auto file = read_json_object(path, "rlxc-ops", d);
  if (!file) return false;
  const json& j = file->tree;
  JsonParts parts(*file);
  OpReader reader(parts);
  parts.known(j, "the file", {"$schema", "format", "format_version", "ops"});
  const auto list = j.find("ops");
  if (list == j.end() || !list->is_array()) parts.fail("the file", "needs a list \"ops\"");
  else
    for (size_t i = 0; i < list->size() && parts.ok(); ++i) {
      OpDefinition op;
      if (!reader.operation((*list)[i], "ops[" + std::to_string(i) + "]", &op)) break;
      parts.set_place((*list)[i]);
      if (find_definition(*out, op.domain, op.name))
        parts.fail("operation \"" + op.domain + "." + op.name + "\"", "is defined twice");
      out->push_back(std::move(op));
    }
  if (!parts.ok()) d.error(Code::BadJson, path + ": " + parts.error());
  return parts.ok();
}

}  // namespace rlxc
