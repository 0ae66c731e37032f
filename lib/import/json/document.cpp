#include "import/json/document.h"

namespace rlxc::import_json {

bool Document::error(Code code, std::string message, size_t at, const std::string& node) {
  std::string where = lines.place(at);
  if (!node.empty()) where += ": node " + node;
  diagnostics.error(code, std::move(message), std::move(where));
  return false;
}

bool Document::count_node() {
  if (++nodes <= options.max_nodes) return true;
  error(Code::TooLarge, "more than " + std::to_string(options.max_nodes) + " nodes (--max-nodes)", reader.at());
  return reader.fail("too many nodes");
}

std::optional<TypeId> Document::type(std::string_view s) {
  std::string key(s);
  if (const auto it = types_.find(key); it != types_.end()) return it->second;
  const auto parsed = parse_type(s, module.dims);
  if (!parsed) return std::nullopt;
  const TypeId id = module.types.intern(*parsed);
  types_.emplace(std::move(key), id);
  return id;
}

std::unique_ptr<Module> import_json(const std::string& path, const ImportOptions& options, Diagnostics& d) {
  const auto file = open_model_file(path, d);
  if (!file) return nullptr;
  const size_t slash = path.rfind('/');
  const std::string_view text(reinterpret_cast<const char*>(file->data()), static_cast<size_t>(file->size()));
  return parse_json(text, slash == path.npos ? "" : path.substr(0, slash + 1), options, d);
}

}  // namespace rlxc::import_json
