// Writes parts of a module as JSON values: types, dims, attributes, names, constants. Texts of interned items are cached, so a
// graph of a million nodes needs no string per node.
#pragma once
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ir/dim_range.h"
#include "ir/graph.h"
#include "report/context.h"
#include "support/json_writer.h"

namespace rlxc::report {

class ModuleTerms {
 public:
  ModuleTerms(const Module& m, JsonWriter& out) : module_(m), out_(out), scratch_(text_) {}

  JsonWriter& out() { return out_; }
  const Module& module() const { return module_; }

  void size(Dim d) { size(d, &out_); }  // an integer, or an expression as text
  void type(TypeId);                    // {"dtype": "f32", "dims": ["batch", 4]}
  void attrs(AttrId, OpKind);           // object of all attributes; data as "data": id
  bool has_attrs(AttrId) const;
  void name(Symbol s) { out_.string(module_.bytes(s)); }
  void names(const std::vector<Symbol>&);
  void value(ValueId);  // the id, or null
  void values(PoolRange<ValueId>);
  void symbols();                    // members "symbols", "named_sizes" unless empty, and "equalities"
  void ranges(const SymbolRanges&);  // member "ranges", unless empty

  // Writes the members "id", "op", "name", "operands", "attrs", "results" and "bodies" of a node that are not empty.
  void node(const Graph&, NodeId);
  // Writes the members "sources" and "passes". `brief` omits sources that are only the node's name.
  void provenance(const Graph&, NodeId, bool brief);
  void constants();  // member "constants": data referenced by nodes

  // Named sizes in what was written, and those that `symbols` is to write.
  std::vector<size_t> used_sizes() const;
  void list_sizes(std::vector<size_t> named) { named_ = std::move(named); }

  // Writes the contents of a constant: "file", "offset" and "bytes", or "values" (up to 16 exact numbers), "splat" (one number),
  // "strings", or "base64".
  void contents(const TensorData&);

 private:
  const std::string& render();
  void size(Dim, JsonWriter*);
  void type_members(const Type&);  // to scratch_
  void numbers(const TensorData&, int64_t count);
  void constant(size_t id, const TensorData&);

  const Module& module_;
  JsonWriter& out_;
  std::string text_;
  JsonWriter scratch_;
  std::vector<std::string> types_, attrs_;  // by id; empty until first used
  std::unordered_map<int64_t, std::string> sizes_;
  std::vector<Dim> used_;  // dims that were written
  std::vector<size_t> named_;
};

// Writes a document with a Writer made by `make`, whose `terms` are ModuleTerms. If the module has named sizes, a draft tells
// which ones the document uses.
template <class Make>
void write_document(const Module& m, JsonWriter& out, const ReportContext& context, const Make& make) {
  std::vector<size_t> named;
  if (m.dims.named_sizes() > 0) {
    std::string draft;
    JsonWriter text(draft);
    auto writer = make(text);
    writer.run(context);
    named = writer.terms().used_sizes();
  }
  auto writer = make(out);
  writer.terms().list_sizes(std::move(named));
  writer.run(context);
}

// The name of a value, else of its node or of the node's first source, else "%id".
ForeignText value_label(const Graph&, ValueId);

}  // namespace rlxc::report
