// JSON files that flags name, as a tree, and what several of them contain.
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "ir/fragment.h"
#include "support/diagnostics.h"
#include "support/mapped_file.h"

namespace rlxc {

struct JsonFile {
  MappedFile file;
  nlohmann::json tree;

  std::string place(const nlohmann::json& part) const;  // "line 3 column 7", of a part of the tree. O(bytes)
};

// The object in the file, whose "format" has to be this. Errors: a file larger than 64 MiB, no JSON, another format.
std::optional<JsonFile> read_json_object(const std::string& path, std::string_view format, Diagnostics&);

// Reads parts of a tree. The first fault is kept, with its line and the names of what it is in.
class JsonParts {
 public:
  using json = nlohmann::json;

  explicit JsonParts(const JsonFile& file) : file_(file), at_(&file.tree) {}
  const std::string& error() const { return error_; }
  bool ok() const { return error_.empty(); }
  void set_place(const json& part) { at_ = &part; }             // of faults from here on; functions that read a part set it
  bool fail(const std::string& where, const std::string& why);  // returns false

  // Only these keys are allowed.
  bool known(const json& object, const std::string& where, std::initializer_list<std::string_view> keys);
  bool text(const json& object, std::string_view key, const std::string& where, std::string* out, bool required = true);
  bool texts(const json& list, const std::string& where, std::vector<std::string>* out);
  bool value(const json&, const std::string& where, AttrValue* out);
  bool shape(const json& list, const std::string& where, ShapePattern* out);
  bool nodes(const json& list, const std::string& where, std::vector<FragmentNode>* out);

 private:
  bool node(const json&, const std::string& where, FragmentNode* out);
  const JsonFile& file_;
  const json* at_;
  std::string error_;
};

}  // namespace rlxc
