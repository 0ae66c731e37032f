#include "driver/tuning_file.h"

#include <algorithm>

#include "import/json/json_file.h"
#include "report/context.h"
#include "support/json_writer.h"

namespace rlxc {
namespace {

using kernel::Blocking;
using kernel::BlockingField;

// Adds the sizes of a node. Returns what is wrong with them, or nothing.
std::string read_blocking(const nlohmann::json& sizes, Blocking* out) {
  if (!sizes.is_object()) return "must be an object of sizes";
  for (const auto& [name, value] : sizes.items()) {
    const auto* field = std::ranges::find(kernel::kBlockingFields, std::string_view(name), &BlockingField::name);
    if (field == std::end(kernel::kBlockingFields)) return "has an unknown size " + ForeignText(name).quoted();
    const std::string range = std::to_string(field->least) + ".." + std::to_string(field->most);
    if (!value.is_number_integer() || value < field->least || value > field->most)
      return "has a size " + ForeignText(name).quoted() + " outside " + range;
    out->*(field->field) = value.get<int64_t>();
  }
  return {};
}

}  // namespace

std::shared_ptr<const codegen::Tuning> read_tuning(const std::string& path, Diagnostics& d) {
  const auto file = read_json_object(path, "rlxc-tuning", d);
  if (!file) return nullptr;
  const auto nodes = file->tree.find("nodes");
  if (nodes == file->tree.end() || !nodes->is_object()) {
    d.error(Code::BadJson, "needs an object \"nodes\" of operations and types", ForeignText(path).quoted());
    return nullptr;
  }
  auto tuning = std::make_shared<codegen::Tuning>();
  const size_t errors = d.errors();
  for (const auto& [key, sizes] : nodes->items())
    if (const std::string why = read_blocking(sizes, &(*tuning)[key]); !why.empty())
      d.error(Code::BadJson, "node " + ForeignText(key).quoted() + " " + why, ForeignText(path).quoted());
  return d.errors() == errors ? tuning : nullptr;
}

std::string tuning_json(const TuningFile& t, std::string_view version) {
  std::string out;
  JsonWriter w(out);
  w.begin_object();
  report::write_plain_header(w, "tuning", version);
  w.key("cpu").string(t.cpu).key("nodes").begin_object();
  for (const auto& [key, blocking] : t.nodes) {
    w.key(key).begin_object(JsonLayout::Line);
    for (const BlockingField& f : kernel::kBlockingFields) w.key(f.name).integer(blocking.*f.field);
    w.end_object();
  }
  w.end_object().end_object().finish();
  return out;
}

}  // namespace rlxc
