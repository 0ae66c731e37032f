// The state of one import: graphs under construction, name scopes, and lazily created values.
#pragma once
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "eval/eval.h"
#include "import/onnx/import.h"
#include "import/onnx/known.h"
#include "import/onnx/proto.h"
#include "import/onnx/tensor.h"
#include "ir/builder.h"

namespace rlxc::onnx_import {

using ValId = Id<struct ValTag>;

// The meaning of an ONNX name. A known value (a size), a weight, or a capture has no node until `Importer::materialise` creates
// one.
struct Val {
  static constexpr uint32_t kNone = UINT32_MAX;
  TypeId type;
  ValueId id;               // in the graph of its frame
  uint32_t known = kNone;   // contents
  uint32_t tensor = kNone;  // a constant
  uint32_t input = kNone;   // index of a model input
  ValId outer;              // the captured value of the enclosing frame
  Symbol name;
  uint16_t frame = 0;
  bool known_checked = false;
  bool trainable = false;  // a float of a parameter that is trained, or computed from one
  bool bad = false;        // its node failed; its users report no errors
};

// A graph under construction: the main graph or the body of a control flow node.
struct Frame {
  struct Capture {
    ValId outer;
    ValueId inner;
  };
  Graph* graph;
  Builder builder;
  std::vector<Capture> captures;                    // in the order of the body's inputs
  std::unordered_map<uint32_t, size_t> capture_of;  // index of a capture by outer value
  std::unordered_set<uint32_t> leaf_names;          // of inputs and parameters
  std::vector<uint8_t> constness;                   // by value: whether it depends on constants only, see is_constant
  std::unordered_map<uint32_t, std::optional<eval::HostValue>> contents;  // of those values, computed on demand

  Frame(Graph& g, Diagnostics* d) : graph(&g), builder(g, d) {}
};

// A name scope: a graph, a body, or an expanded function, whose names get a prefix and which sees no outer names.
struct Scope {
  uint16_t frame = 0;
  uint32_t floor = 0;  // bindings of outer scopes below this depth are invisible
  std::string prefix;
  const std::vector<OpsetView>* opsets = nullptr;
  int64_t opset = 0;  // of ai.onnx
  size_t first_undo = 0;
};

// An input that a body declares.
struct BodyInput {
  std::string name;
  Type type;
};

struct OpRow;

// A node being imported: its message and the values of its names. Reused per depth to reuse the vectors.
struct NodeWork {
  NodeView view;
  std::vector<ValId> inputs;
  std::vector<Symbol> outputs;
};

class Importer {
 public:
  Importer(Module& m, TensorSource& source, const ModelView& model, const ImportOptions& options, Diagnostics& d);
  bool run();

  Module& module() { return module_; }
  DimTable& dims() { return module_.dims; }
  Diagnostics& diagnostics() { return diagnostics_; }
  Diagnostics& pending() { return local_; }  // of the current node; its name is added when it is done
  const ImportOptions& options() const { return options_; }
  Frame& frame() { return *frames_[scopes_.back().frame]; }
  Scope& scope() { return scopes_.back(); }
  int64_t opset(std::string_view domain) const;  // 0: not imported

  // Values.
  Val& val(ValId v) { return vals_[v.raw]; }
  const Type& type(ValId v) const { return module_.types[vals_[v.raw].type]; }
  ValueId materialise(ValId);
  ValId named(std::string_view name) { return lookup(symbol(name)); }  // the value of this name in the scope; invalid if unknown
  const Known* known(ValId);
  const TensorData* tensor(ValId);  // contents of a value that depends on constants only; valid until the next value is created
  const TensorData* contents(ValueId v) { return computed(frame(), v); }  // of the current frame; as `tensor`
  const TensorData* given(ValId);  // contents that the options promise for an input of the model
  ValId value(ValueId);            // of the current frame
  ValId known_value(Known);
  ValId constant(TensorData, bool missing = false, bool trainable = false);
  ValId bad_value();
  std::optional<TensorData> load(Bytes tensor_proto, const std::string& where, bool* missing);
  TensorSource& source() { return source_; }

  // Imports a body. The graph's inputs get `types`. Captured outer values become further inputs, in the order of `captures`,
  // which may be given in advance. Returns null on errors.
  Graph* import_body(Bytes graph, std::string_view name, std::span<const Type> types, std::vector<Frame::Capture>* captures,
                     Graph* reuse = nullptr);
  // Builds a body with inputs of these types. `nodes` gets them, and returns the outputs (none: an error, reported); it runs in
  // the scope of the body, whose builder is that of `frame`.
  Graph* build_body(std::string_view name, std::span<const Type> types, std::vector<Frame::Capture>* captures,
                    const std::function<std::vector<ValueId>(std::span<const ValueId>)>& nodes);
  std::vector<BodyInput> body_inputs(Bytes graph);  // as declared
  ValId visible(ValId);                             // a value of this frame or an outer one, as a value of this frame
  void add_capture_inputs(Graph&, std::span<const Frame::Capture>);
  // Inlines a body that runs once, on these inputs, into the current graph. Returns an empty vector on errors.
  std::vector<ValId> inline_body(Bytes graph, std::span<const ValId> inputs = {});

  std::optional<Type> read_type(Bytes type_proto, const std::string& where);
  std::optional<Type> declared(Symbol);           // the main graph's type of the value, if it has one
  std::string fresh_name(std::string_view base);  // of an input or weight of the current frame
  bool is_of_inputs(Dim);                         // whether it is an expression of the sizes of inputs

 private:
  struct Binding {
    uint32_t depth = 0;  // scope depth, counted from 1; 0: unbound
    ValId val;
  };
  struct Waiting {
    Bytes node;
    bool done = false;
  };
  struct GraphInfo {
    std::vector<Bytes> inputs, outputs;
    std::string_view name;
    size_t nodes = 0;
  };

  bool read_graph(Bytes graph, GraphInfo*);
  void declare_initializer(Bytes proto, bool sparse);
  void find_plain_dims(const GraphInfo&);
  void main_inputs(const GraphInfo&);
  bool find_shape(std::string_view input, Type*);
  bool complete_shape(std::string_view input, const std::string& place, Type*);
  const std::string* stated_shape(std::string_view input) const;
  std::optional<std::vector<Dim>> read_shape(std::string_view words);
  const std::string* stated_value(ValId) const;  // the words of --value for an input
  void main_outputs(const GraphInfo&);
  bool import_nodes(Bytes container, uint32_t node_field);
  bool import_node(Bytes, Symbol* missing);
  bool resolve_names(NodeWork&, Symbol* missing);
  void free_names(Bytes graph, std::vector<std::string_view>* out, int depth, size_t* budget);
  const FunctionView* find_function(const NodeView&) const;  // the function that the node calls, or null
  void call_function(const FunctionView&, NodeWork&, const std::string& where);
  uint64_t expanded_nodes(const FunctionView&);
  uint64_t nodes_within(Bytes container, uint32_t tag);
  void too_much(std::string message, std::string where, std::string help);  // reports an error once and ends the import
  void substitute_references(NodeView&);
  bool valid_attributes(const NodeView&);
  void dispatch(NodeWork&);
  void custom_op(const OpDefinition&, NodeWork&);
  void finish_node(NodeWork&, std::span<const ValId> results);
  std::string where(const NodeView&) const;

  bool enter(uint16_t frame, bool isolated, std::string prefix, const std::vector<OpsetView>& opsets);
  void leave();
  Symbol symbol(std::string_view name);
  void keep_devices(const NodeView&);
  std::string node_text(const NodeView&) const;
  Symbol node_name(const NodeView&);  // nodes are not looked up by name: each gets a new symbol
  ValId lookup(Symbol);
  bool bind(Symbol, ValId);  // false: the scope has the name already
  ValId capture(ValId, uint16_t from, uint16_t to);
  Graph* make_body(std::string_view name, std::vector<Frame::Capture>* captures, Graph* reuse,
                   const std::function<void()>& declare, const std::function<std::optional<std::vector<ValueId>>()>& nodes);
  const TensorData& tensor_data(uint32_t index) const;
  bool is_constant(Frame&, ValueId);
  const TensorData* given_constant(const Frame&, NodeId);
  const TensorData* computed(Frame&, ValueId);
  std::string fresh_name(Frame&, std::string_view base);
  void reconcile(ValueId, const Type& declared, std::string_view name, bool output);
  void check_bindings();
  void unknown_dim(std::string_view name);
  void assume_equal_sizes();
  Dim named_dim(std::string_view);
  void take_sizes(Type*);

  Module& module_;
  TensorSource& source_;
  const ModelView& model_;
  const ImportOptions& options_;
  Diagnostics& diagnostics_;
  Diagnostics local_;  // of the current node, before it is named
  std::vector<Val> vals_;
  std::deque<Known> knowns_;  // stable addresses
  struct LazyTensor {
    TensorData data;
    DataId id;
    bool missing = false, trainable = false;
  };
  bool is_literal(const LazyTensor&) const;
  std::deque<LazyTensor> tensors_;
  std::map<uint32_t, std::optional<TensorData>> given_;
  std::unordered_map<uint32_t, ValId> input_values_;  // of the main graph, by node
  std::vector<std::unique_ptr<Frame>> frames_;
  std::vector<Scope> scopes_;
  std::vector<Binding> bindings_;
  std::vector<std::pair<Symbol, Binding>> undo_;
  std::deque<NodeWork> work_;
  std::unordered_map<uint32_t, Bytes> value_infos_;
  struct Call {
    const FunctionView* function;
    const NodeView* node;
  };
  std::vector<Call> calls_;
  std::vector<std::unordered_set<uint32_t>> absent_;  // per call: inputs that it omits
  std::unordered_map<std::string, const FunctionView*> functions_;
  std::unordered_map<const FunctionView*, uint64_t> expansions_;  // counted on demand
  int expansion_depth_ = 0;
  std::map<std::string, size_t> model_dims_;       // names of dims, in order
  std::set<std::string> input_dims_;               // names of input dims
  std::set<std::string, std::less<>> plain_dims_;  // names of dims that are no expressions, though they read as one
  DimBindings bound_;                              // values of dims: those of the options, or of the data
  size_t nodes_ = 0, expanded_ = 0;
  uint64_t operations_ = 0;        // of the values computed from constants
  DimBindings sizes_of_computed_;  // data-dependent dims of these values
  bool over_limit_ = false;
  std::set<std::pair<std::string_view, std::string_view>> ignored_;  // operators and attributes that a warning named
};

}  // namespace rlxc::onnx_import
