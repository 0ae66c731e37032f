// The writer that export rules use: adds nodes, names and small constants to one ONNX graph and its sub-graphs.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "export/onnx/export.h"
#include "export/onnx/wire.h"

namespace rlxc::onnx_export {

using Names = std::vector<std::string>;

inline constexpr std::string_view kMachineLearning = "ai.onnx.ml";  // a domain
inline constexpr int64_t kMachineLearningVersion = 3;
inline constexpr std::string_view kOwnDomain = "ai.rlxc";

// Names of one kind in a model, each given once. Reserved names are only given to those that ask for them by `claim`: numbers and
// made-up names go around them, so that a model that is written again stays the same.
class NameSet {
 public:
  void reserve(std::string_view name) { reserved_.emplace(name); }
  bool take(std::string_view name) { return used_.emplace(name).second; }  // false: something has it
  std::string fresh(std::string_view stem);                                // the stem, or the stem and a number
  std::string claim(std::string_view name);                                // this name if nothing has it, else a fresh one

 private:
  std::unordered_set<std::string> used_, reserved_;
  std::unordered_map<std::string, size_t> counters_;
};

class Writer {
 public:
  Writer(const Module& m, const ExportOptions& o, std::vector<ExternalData>* external, Diagnostics& d)
      : module_(m), options_(o), external_(external), diagnostics_(d) {}

  std::optional<std::string> model();

  const Module& module() const { return module_; }
  int64_t opset() const { return options_.operators.opset; }
  // node() adds an intermediate node with one result and returns its name. node_of() adds a node that has the name of the current
  // one, with the given results.
  std::string node(std::string_view op, const Names& in, const Attributes& = {}, std::string result = {});
  void node_of(std::string_view op, const Names& in, const Attributes&, const Names& results, std::string_view domain = {});
  std::string fresh(std::string_view stem) { return values_.fresh(stem); }  // a name that no value has

  std::string constant(const TensorData&, std::string_view stem);
  std::string ints(const std::vector<int64_t>&);  // an i64 vector
  std::string scalar(DType, double);
  // Has the expressions of the module, and takes more.
  DimTable& dims() { return dims_ ? *dims_ : dims_.emplace(module_.dims); }
  // The sizes as an i64 vector, computed where they are not known; one of them as an i64 scalar.
  std::string sizes(std::span<const Dim>);
  std::string size(Dim);
  std::string extent(const std::string& value, int64_t axis);  // of a value in a run, as an i64 vector of one element

  // A sub-graph: `inputs` are those of the body from `first_input` on up to `last_input`, the others are the values `outer`.
  Message type(const Type&);  // TypeProto
  Message body(GraphId, std::span<const std::string> outer, size_t first_input, size_t last_input);

  std::string name_of(const Graph&, ValueId);  // empty for an absent operand
  void set_name(const Graph&, ValueId, std::string);
  // True the first time in a graph.
  bool once(ValueId v, int64_t axis) { return top().split.insert({v.raw, axis}).second; }
  // The symbols of these sizes become known: those of a value that was computed.
  void note_sizes(const Graph&, ValueId);

 private:
  struct Scope {
    std::vector<Message> nodes, initializers;
    std::map<std::string, std::string, std::less<>> computed;  // sizes by their text, nodes by operator and operands
    std::unordered_map<uint32_t, std::string> names;           // of values
    std::set<std::pair<uint32_t, int64_t>> split;              // values and axes
    const Graph* graph = nullptr;
  };
  void graph_nodes(const Graph&);
  void node_by_body(const Graph&, NodeId, const Body&);
  Message function(const Body&);
  Message stop_gradient_function() const;
  void reserve_names();
  std::string leaf(const Graph&, ValueId);           // writes a weight or constant, where it is first read
  std::string content_key(const TensorData&) const;  // of a small constant; empty for others
  void name_outputs(const Graph& main);
  Names graph_outputs(const Graph&);  // a name for each output of the graph, which is that of no other output and no input
  Message tensor(const TensorData&, const std::string& name);
  Message constant_node(const TensorData&, const std::string& result);
  void outputs(const Graph&, Message*);
  Message value_info(const Graph&, ValueId, const std::string& name);
  std::string vector_of(Dim);                              // one size as an i64 vector of one element
  const std::string* found(const std::string& key) const;  // what `computed` has; null: nothing
  std::string node_once(std::string_view op, const Names& in,
                        const Attributes& a = {});  // a node for sizes, shared by all readers
  Scope& top() { return scopes_.back(); }
  std::vector<NodeDevices> devices_of(const Graph&, NodeId, std::string_view named);
  void warn_of_lost_devices();

  const Module& module_;
  std::optional<DimTable> dims_;  // a copy, which takes further expressions
  const ExportOptions& options_;
  std::vector<ExternalData>* external_;
  uint64_t external_end_ = 0;
  Diagnostics& diagnostics_;
  bool in_function_ = false;  // constants are nodes there
  std::vector<Message> functions_;
  std::unordered_set<uint32_t> written_functions_;       // graphs
  std::map<std::string, int64_t, std::less<>> domains_;  // besides that of the standard, with their versions
  std::vector<Scope> scopes_;
  std::string_view node_name_;                                // of the node that is being written
  std::unordered_set<std::string_view> operator_names_;       // of nodes that compute no sizes
  std::vector<NodeDevices> devices_;                          // its device configurations
  std::set<std::pair<std::string, std::string>> configured_;  // nodes, and their values, whose configurations are written
  NameSet values_, nodes_;                                    // of the whole model, subgraphs and functions included
  Names output_names_;                                        // of the main graph; empty: none is asked for
  struct Place {
    std::string value;
    int64_t axis;
    size_t depth;
  };
  std::set<std::string> signed_;                                   // named sizes that may be negative
  std::map<std::string, std::vector<Place>, std::less<>> places_;  // where sizes can be read off, by their text
  std::map<std::string, std::string, std::less<>> constants_;      // of the main graph, by type and content
  std::map<std::string, std::string, std::less<>> own_names_;      // of constants of the module, by type and content
  std::unordered_map<uint32_t, std::string> weights_;              // written, by their data
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
  // Whether the operand is a constant of one element, which is `value`.
  bool is_number(size_t i, double value) const;
  // An operand of one element as a scalar.
  std::string scalar(size_t i) const { return rank(i) == 0 ? in(i) : w.node("Reshape", {in(i), w.ints({})}); }
  std::string out(size_t r = 0) const { return w.name_of(g, g.result(n, r)); }
  Names outs() const;
  // The operator that gives the results of the node.
  bool be(std::string_view op, const Names& in, const Attributes& a = {}, std::string_view domain = {}) const {
    w.node_of(op, in, a, outs(), domain);
    return true;
  }
};

// Do operators of this version take the type?
bool has_dtype(DType, int64_t opset);

// Before version `all`, the operator takes only some element types of an operand.
struct TypeLimit {
  int64_t all = kOldestOpset;
  bool (*before)(DType) = nullptr;
  size_t operand = 0;
};
inline bool is_wide(DType t) { return bits(t) >= 32; }
inline bool is_not_bf16(DType t) { return t != DType::BF16; }

using Rule = bool (*)(const Site&);  // false: these attributes or types have no operator
struct RuleEntry {
  OpKind op;
  Rule write;
  bool (*fits)(const Graph&, NodeId, int64_t opset) = nullptr;  // null: all nodes of the kind
  int64_t since = kOldestOpset;
  TypeLimit types = {};
};
// Null if the node has no operator.
const RuleEntry* find_rule(const Graph&, NodeId, const OperatorSet&);
// The reshape that drops the axis of which this transform, back to real numbers, leaves the real parts: together they are a
// Gather.
NodeId reshape_of_real_part(const Graph& g, NodeId fft);
// The MatMul of two matrices that becomes one Gemm with this Add, which alone reads it; invalid if there is none.
NodeId product_of_gemm(const Graph&, NodeId add);

// The value of `auto_pad` by which the convolution does what a Pad that it alone reads does; empty: there is none, or the sizes
// are known and numbers say it.
std::string_view same_padding(Writer&, const Graph&, NodeId conv);

std::span<const RuleEntry> elementwise_rules();
std::span<const RuleEntry> movement_rules();
std::span<const RuleEntry> nn_rules();
std::span<const RuleEntry> sequence_rules();
std::span<const RuleEntry> microsoft_rules();  // of com.microsoft

}  // namespace rlxc::onnx_export
