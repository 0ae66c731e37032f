// One JSON document while it is read: its reader, places for diagnostics, and what both forms of graphs share.
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

// A value that a node of the file makes: known, or of a node that could not be made, so that later reads are not errors again.
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
  size_t nodes = 0;                                       // read so far
  std::unordered_map<int64_t, std::string> symbol_names;  // of the reference form, by number

  Document(std::string_view t, std::string f, const ImportOptions& o, Diagnostics& d, Module& m)
      : text(t), folder(std::move(f)), options(o), diagnostics(d), reader(t), lines(t), module(m) {}

  // Always false.
  bool error(Code code, std::string message, size_t at, const std::string& node = {});
  bool count_node();                                  // false with an error beyond the limit
  std::optional<TypeId> type(std::string_view text);  // "f32[batch,4]"; each text is parsed once

 private:
  std::unordered_map<std::string, TypeId> types_;
};

// Contents of constants: entries of the list "constants" by their ids.
class ConstantReader {
 public:
  explicit ConstantReader(Document& d) : doc_(d) {}

  void read_list();  // the reader stands before the array
  // Gives the node its data. False with an error if there is none of this id.
  bool attach(Graph&, NodeId, int64_t id, size_t at);

 private:
  struct Fields;
  bool entry(Fields*);
  std::optional<TensorData> make(const Fields&);
  bool file(const Fields&, TensorData*, uint64_t bytes);

  Document& doc_;
  std::unordered_map<int64_t, DataId> ids_;  // invalid: the file is missing
  std::map<std::string, std::shared_ptr<const MappedFile>, std::less<>> files_;
};

// A list of nodes in the reference form: {"id", "op", "inputs", "shape", "name"}, and "outputs". Reads the members of one graph
// object, whose "{" and first key were read.
bool read_reference_graph(Document&, std::string_view first_key);

}  // namespace rlxc::import_json
