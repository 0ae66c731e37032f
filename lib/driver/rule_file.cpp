#include "driver/rule_file.h"

#include <algorithm>

#include "import/json/json_file.h"

namespace rlxc {
namespace {

using nlohmann::json;

constexpr size_t kMostPatternNodes = 64;

class RuleReader {
 public:
  explicit RuleReader(JsonParts& parts) : parts_(parts) {}

  bool rule(const json& j, const std::string& where, RewriteRule* r) {
    if (!parts_.known(j, where, {"name", "doc", "pattern", "result", "values", "sizes", "replacement", "with"}) ||
        !parts_.text(j, "name", where, &r->name))
      return false;
    const std::string own = "rule \"" + r->name + "\"";
    parts_.set_place(j);
    if (!j.contains("pattern")) return parts_.fail(own, "lacks \"pattern\"");
    if (!parts_.nodes(j["pattern"], own + ".pattern", &r->pattern)) return false;
    if (r->pattern.size() > kMostPatternNodes)
      return parts_.fail(own, "has more than " + std::to_string(kMostPatternNodes) + " nodes in its pattern");
    if (j.contains("replacement") && !parts_.nodes(j["replacement"], own + ".replacement", &r->replacement)) return false;
    if (!parts_.text(j, "result", own, &r->result) || !parts_.text(j, "with", own, &r->with)) return false;
    if (j.contains("values") && !values(j["values"], own + ".values", r)) return false;
    if (j.contains("sizes") && !sizes(j["sizes"], own + ".sizes", r)) return false;
    parts_.set_place(j);
    const std::string fault = fault_of(*r);
    return fault.empty() || parts_.fail(own, fault);
  }

 private:
  bool values(const json& j, const std::string& where, RewriteRule* r) {
    if (!j.is_object()) return parts_.fail(where, "must be an object of names of values");
    for (const auto& item : j.items()) {
      const std::string own = where + "." + item.key();
      const json& c = item.value();
      ValueCondition& out = r->values.emplace_back();
      out.value = item.key();
      if (!parts_.known(c, own, {"type", "shape", "constant", "min", "max"})) return false;
      std::vector<std::string> types;
      if (c.contains("type") && c["type"].is_string()) types.push_back(c["type"].get<std::string>());
      else if (c.contains("type") && !parts_.texts(c["type"], own + ".type", &types)) return false;
      for (const std::string& t : types) {
        const auto dtype = dtype_from_name(t);
        if (!dtype) return parts_.fail(own, "there is no element type \"" + t + "\"");
        out.dtypes.push_back(*dtype);
      }
      if (c.contains("shape") && !parts_.shape(c["shape"], own + ".shape", &out.shape.emplace())) return false;
      if (c.contains("constant")) {
        if (c["constant"] != true) return parts_.fail(own, "\"constant\" must be true");
        out.constant = true;
      }
      for (const auto& [key, bound] : {std::pair("min", &out.low), std::pair("max", &out.high)})
        if (c.contains(key)) {
          if (!c[key].is_number()) return parts_.fail(own, std::string("\"") + key + "\" must be a number");
          *bound = c[key].get<double>();
        }
    }
    return true;
  }

  bool sizes(const json& j, const std::string& where, RewriteRule* r) {
    if (!j.is_object()) return parts_.fail(where, "must be an object of sizes");
    DimTable dims;
    for (const auto& item : j.items()) {
      const std::string own = where + "." + item.key();
      SizeCondition& out = r->sizes.emplace_back();
      out.size = item.key();
      if (!dims.parse(out.size)) return parts_.fail(own, "is no expression of sizes");
      if (!parts_.known(item.value(), own, {"multiple_of", "min", "max"})) return false;
      for (const auto& [key, bound] :
           {std::pair("multiple_of", &out.multiple_of), std::pair("min", &out.low), std::pair("max", &out.high)})
        if (item.value().contains(key)) {
          if (!item.value()[key].is_number_integer()) return parts_.fail(own, std::string("\"") + key + "\" must be an integer");
          *bound = item.value()[key].get<int64_t>();
        }
      if (out.multiple_of && *out.multiple_of < 1) return parts_.fail(own, "\"multiple_of\" must be at least 1");
    }
    return true;
  }

  JsonParts& parts_;
};

}  // namespace

std::shared_ptr<const RuleSet> read_rules(const std::string& path, Diagnostics& d) {
  const auto file = read_json_object(path, "rlxc-rules", d);
  if (!file) return nullptr;
  auto out = std::make_shared<RuleSet>();
  const json& j = file->tree;
  JsonParts parts(*file);
  RuleReader reader(parts);
  parts.known(j, "the file", {"$schema", "format", "format_version", "rules"});
  const auto list = j.find("rules");
  if (list == j.end() || !list->is_array()) parts.fail("the file", "needs a list \"rules\"");
  else
    for (size_t i = 0; i < list->size() && parts.ok(); ++i)
      reader.rule((*list)[i], "rules[" + std::to_string(i) + "]", &out->rules.emplace_back());
  if (parts.ok()) return out;
  d.error(Code::BadJson, path + ": " + parts.error());
  return nullptr;
}

}  // namespace rlxc
