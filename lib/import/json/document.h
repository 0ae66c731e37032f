// The state of reading one JSON document: its reader, diagnostic locations, and what both graph formats share.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "import/json/import.h"
#include "support/json_reader.h"
#include "support/mapped_file.h"

namespace rlxc::import_json {

// A value that a node of the file defines. `bad`: its node failed, and uses of it report no further errors.
struct ValueSlot {
  ValueId value;
  bool bad = false;
};

struct Document {
  std::string_view text;
  std::string folder;
  const ImportOptions& options;
  Diagnostics& diagnostics;
  JsonReader reader;
  LineIndex lines;
  Module& module;
  size_t nodes = 0;                                       // nodes read
  std::unordered_map<int64_t, std::string> symbol_names;  // of the reference format, by number

  Document(std::string_view t, std::string f, const ImportOptions& o, Diagnostics& d, Module& m)
      : text(t), folder(std::move(f)), options(o), diagnostics(d), reader(t), lines(t), module(m) {}

  // Returns false.
  bool error(Code code, std::string message, size_t at, const std::string& node = {});
  bool count_node();                                  // false with an error if the limit is exceeded
  std::optional<TypeId> type(std::string_view text);  // "f32[batch,4]"; each text is parsed once
  // The same of an object {"dtype": "f32", "dims": ["batch", 4]}, given as its JSON text.
  std::optional<TypeId> type_object(std::string_view json, std::string* message);

 private:
  std::unordered_map<std::string, TypeId> types_;
};

// Contents of constants: the entries of the list "constants", by id.
class ConstantReader {
 public:
  explicit ConstantReader(Document& d) : doc_(d) {}

  void read_list();  // the reader must be at the array
  // Sets the data of a node. Returns false with an error if the id is unknown.
  bool attach(Graph&, NodeId, int64_t id, size_t at);

 private:
  struct Fields;
  bool entry(Fields*);
  std::optional<TensorData> make(const Fields&);
  bool file(const Fields&, TensorData*, uint64_t bytes);

  Document& doc_;
  std::unordered_map<int64_t, DataAttrs> ids_;  // a place alone: the file is missing
  std::map<std::string, std::shared_ptr<const MappedFile>, std::less<>> files_;
};

// Reads the members of a graph object in the reference format, after its "{" and first key: "outputs" and a list of nodes {"id",
// "op", "inputs", "shape", "name"}.
bool read_reference_graph(Document&, std::string_view first_key);

}  // namespace rlxc::import_json
