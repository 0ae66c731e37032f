// The writer that export rules use: adds nodes, names and small constants to one ONNX graph and its sub-graphs.
#pragma once
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "export/onnx/export.h"
#include "export/onnx/wire.h"

namespace rlxc::onnx_export {

using Names = std::vector<std::string>;

class Writer {
 public:
  Writer(const Module& m, const ExportOptions& o, Diagnostics& d) : module_(m), options_(o), diagnostics_(d) {}

  std::optional<std::string> model();

  const Module& module() const { return module_; }
  // A node with one result, or with results of these names.
  std::string node(std::string_view op, const Names& in, const Attributes& = {}, std::string result = {});
  void node_of(std::string_view op, const Names& in, const Attributes&, const Names& results);
  std::string fresh(std::string_view stem);  // a name that nothing has

  std::string constant(const TensorData&, std::string_view stem);
  std::string ints(const std::vector<int64_t>&);  // an i64 vector
  std::string scalar(DType, double);
  // The sizes as an i64 vector, computed where they are not known; one of them as an i64 scalar.
  std::string sizes(std::span<const Dim>);
  std::string size(Dim);

  // A sub-graph: `inputs` are those of the body from `first_input` on up to `last_input`, the others are the values `outer`.
  Message body(GraphId, std::span<const std::string> outer, size_t first_input, size_t last_input);

  std::string name_of(const Graph&, ValueId);  // empty for an absent operand
  void set_name(const Graph&, ValueId, std::string);
  // The symbols of these sizes become known: those of a value that was computed.
  void note_sizes(const Graph&, ValueId);

 private:
  struct Scope {
    std::vector<Message> nodes, initializers;
    std::map<std::string, std::string, std::less<>> computed;  // sizes by their text
    std::unordered_map<uint32_t, std::string> names;           // of values
    const Graph* graph = nullptr;
  };
  void graph_nodes(const Graph&);
  void outputs(const Graph&, Message*);
  Message value_info(const Graph&, ValueId, const std::string& name);
  std::string vector_of(Dim);  // one size as an i64 vector of one element
  Scope& top() { return scopes_.back(); }

  const Module& module_;
  const ExportOptions& options_;
  Diagnostics& diagnostics_;
  std::vector<Scope> scopes_;
  std::string_view node_name_;  // of the nodes that are being made
  std::unordered_set<std::string> used_;
  std::unordered_map<std::string, size_t> counters_;
  struct Place {
    std::string value;
    int64_t axis;
    size_t depth;
  };
  std::map<std::string, std::vector<Place>, std::less<>> symbols_;  // where sizes can be read off
  std::map<std::string, std::string, std::less<>> constants_;       // of the main graph, by type and content
};

// The node at hand.
struct Site {
  Writer& w;
  const Graph& g;
  NodeId n;

  template <class A>
  const A& attrs() const {
    return g.attrs<A>(n);
  }
  bool has(size_t i) const { return g.operand(n, i).valid(); }
  std::string in(size_t i) const { return w.name_of(g, g.operand(n, i)); }
  Names all() const;
  std::vector<Dim> dims(size_t i) const {
    const auto d = g.dims(g.operand(n, i));
    return {d.begin(), d.end()};
  }
  std::vector<Dim> result_dims(size_t r = 0) const {
    const auto d = g.dims(g.result(n, r));
    return {d.begin(), d.end()};
  }
  int rank(size_t i) const { return g.rank(g.operand(n, i)); }
  DType dtype(size_t i) const { return g.dtype(g.operand(n, i)); }
  std::string out(size_t r = 0) const { return w.name_of(g, g.result(n, r)); }
  Names outs() const;
  // The operator that gives the results of the node.
  bool be(std::string_view op, const Names& in, const Attributes& a = {}) const {
    w.node_of(op, in, a, outs());
    return true;
  }
};

using Rule = bool (*)(const Site&);  // false: these attributes or types have no operator
struct RuleEntry {
  OpKind op;
  Rule write;
  bool (*fits)(const Graph&, NodeId) = nullptr;  // null: all nodes of the kind
};
const RuleEntry* find_rule(OpKind);
std::span<const RuleEntry> elementwise_rules();
std::span<const RuleEntry> movement_rules();
std::span<const RuleEntry> nn_rules();

}  // namespace rlxc::onnx_export
