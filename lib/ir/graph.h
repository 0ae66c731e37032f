// The container of HIR, MIR and LIR: nodes in execution order over values, with use lists. Ids are indices into vectors; nodes
// are rewritten in place, and erased nodes leave a tombstone until `compact`. Lists (PoolRange) are positions, not pointers, so
// they can be read while the graph grows; types, attributes, data and origins never move. `compact` and `clear` invalidate all
// lists. A Module owns everything shared: symbols, types, attributes, data, names and all graphs (bodies of control flow).
#pragma once
#include <deque>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ir/attrs.h"
#include "ir/devices.h"
#include "ir/type.h"
#include "support/foreign_text.h"
#include "support/interner.h"
#include "support/pool_range.h"

namespace rlxc {

using NodeId = Id<struct NodeTag>;
using ValueId = Id<struct ValueTag>;
using GraphId = Id<struct GraphTag>;
using OriginId = Id<struct OriginTag>;
using UseId = Id<struct UseTag>;

class Module;

// Provenance of a node: its source nodes (ONNX names, HIR labels) and the passes that created it, in order.
struct Origin {
  std::vector<Symbol> sources;
  std::vector<Symbol> passes;
};

class Graph {
 public:
  Graph(Module& module, GraphId id, std::string_view name);

  Module& module() const { return *module_; }
  GraphId id() const { return id_; }
  const ForeignText& name() const { return name_; }

  // Nodes. `make_node` appends before the terminator, or inserts before `before`. Result types may be set later (`set_type`).
  // Absent optional operands are invalid ValueIds. O(operands + results).
  NodeId make_node(OpKind, std::span<const ValueId> operands, AttrId, std::span<const TypeId> result_types,
                   std::span<const GraphId> bodies = {}, NodeId before = {});
  void reserve(size_t nodes);               // memory for so many nodes
  void erase(NodeId);                       // requires that no result has uses
  void move_before(NodeId, NodeId before);  // the caller must keep operands before their uses
  bool alive(NodeId n) const { return n.raw < nodes_.size() && !nodes_[n.raw].dead; }
  size_t node_capacity() const { return nodes_.size(); }  // all ids are below this
  size_t value_capacity() const { return values_.size(); }
  size_t live_nodes() const { return live_; }  // excludes the terminator

  OpKind op(NodeId n) const { return nodes_[n.raw].op; }
  AttrId attr_id(NodeId n) const { return nodes_[n.raw].attrs; }
  void set_attrs(NodeId n, AttrId a) { nodes_[n.raw].attrs = a; }
  template <class A>
  const A& attrs(NodeId n) const;  // A must be the op's attribute struct
  PoolRange<ValueId> operands(NodeId n) const { return {operands_, nodes_[n.raw].first_operand, nodes_[n.raw].operand_count}; }
  ValueId operand(NodeId n, size_t i) const {
    return i < nodes_[n.raw].operand_count ? operands_[nodes_[n.raw].first_operand + i] : ValueId();
  }
  size_t result_count(NodeId n) const { return nodes_[n.raw].result_count; }
  ValueId result(NodeId n, size_t i = 0) const { return ValueId(nodes_[n.raw].first_result + i); }
  PoolRange<GraphId> bodies(NodeId n) const { return {bodies_, nodes_[n.raw].first_body, nodes_[n.raw].body_count}; }
  void set_operand(NodeId, size_t index, ValueId);
  void set_operands(NodeId, std::span<const ValueId>);

  // Names and provenance.
  Symbol node_name(NodeId n) const { return nodes_[n.raw].name; }
  void set_node_name(NodeId n, Symbol s) { nodes_[n.raw].name = s; }
  OriginId origin(NodeId n) const { return nodes_[n.raw].origin; }
  void set_origin(NodeId n, OriginId o) { nodes_[n.raw].origin = o; }
  // The launch shared by the node and its neighbours in execution order, ignoring views and leaves between them. Invalid: a
  // launch of its own. Names are unique in a module.
  Symbol launch(NodeId n) const { return nodes_[n.raw].launch; }
  void set_launch(NodeId n, Symbol s) { nodes_[n.raw].launch = s; }
  ForeignText label(NodeId) const;  // the node's name, else its sources, else the name of its first result, else "%id"

  // Values.
  const Type& type(ValueId v) const;
  TypeId type_id(ValueId v) const { return values_[v.raw].type; }
  void set_type(ValueId v, TypeId t) { values_[v.raw].type = t; }
  DType dtype(ValueId v) const { return type(v).dtype; }
  std::span<const Dim> dims(ValueId v) const { return type(v).dims; }
  int rank(ValueId v) const { return type(v).rank(); }
  NodeId def(ValueId v) const { return values_[v.raw].def; }
  uint32_t result_index(ValueId v) const { return v.raw - nodes_[values_[v.raw].def.raw].first_result; }
  Symbol value_name(ValueId v) const { return values_[v.raw].name; }
  void set_value_name(ValueId v, Symbol s) { values_[v.raw].name = s; }

  // Uses in order of creation; graph outputs are uses by the terminator. O(1) per step.
  size_t use_count(ValueId v) const { return values_[v.raw].use_count; }
  bool has_one_use(ValueId v) const { return values_[v.raw].use_count == 1; }
  struct Use {
    NodeId user;
    uint32_t index;  // operand number
  };
  class UseRange;
  UseRange uses(ValueId) const;
  NodeId only_user(ValueId) const;  // the user of a value with exactly one use, else invalid
  bool is_output(ValueId) const;    // O(uses)
  // Replaces every use of `from` by `to`. `to` takes over the name if it has none. If its node was created by the running pass,
  // the node takes over the provenance of the node of `from`. O(uses).
  void replace_all_uses(ValueId from, ValueId to);

  // Inputs in declared order; outputs (operands of the terminator) with their names.
  PoolRange<NodeId> inputs() const { return {inputs_, 0, inputs_.size()}; }
  PoolRange<ValueId> outputs() const { return operands(terminator_); }
  NodeId terminator() const { return terminator_; }
  void add_output(ValueId, Symbol name);
  void set_outputs(std::span<const ValueId>);  // names keep their positions
  Symbol output_name(size_t i) const { return i < output_names_.size() ? output_names_[i] : Symbol(); }
  void set_output_name(size_t i, Symbol);
  void remove_input(NodeId);  // removes it from the declared list; call before erasing it

  // Execution order. The current node may be erased, and nodes may be inserted before it, while iterating.
  NodeId first() const { return first_; }
  NodeId next(NodeId n) const {
    do n = nodes_[n.raw].next;
    while (nodes_[n.raw].dead);
    return n;
  }
  class NodeRange;
  NodeRange nodes() const;  // excludes the terminator

  // Drops all nodes, inputs and outputs.
  void clear();

  // Renumbers nodes and values in execution order and drops tombstones. Invalidates all ids of the graph.
  void compact();

 private:
  friend class Module;
  Graph(const Graph&) = default;

  struct Node {
    OpKind op{};
    bool dead = false;
    uint16_t result_count = 0;
    AttrId attrs;
    uint32_t first_operand = 0, operand_count = 0;
    uint32_t first_result = 0;
    uint32_t first_body = 0, body_count = 0;
    NodeId prev, next;
    Symbol name;
    Symbol launch;
    OriginId origin;
  };
  struct Value {
    TypeId type;
    NodeId def;
    Symbol name;
    uint32_t first_use = UseId::kNone, last_use = UseId::kNone, use_count = 0;  // use = index into operands_
  };
  struct Link {
    uint32_t prev = UseId::kNone, next = UseId::kNone;
    NodeId user;
  };

  void link_use(uint32_t slot, NodeId user);
  void unlink_use(uint32_t slot);
  void link_node(NodeId, NodeId before);
  void unlink_node(NodeId);
  uint32_t allocate_operands(size_t count);

  Module* module_;
  GraphId id_;
  ForeignText name_;
  std::vector<Node> nodes_;
  std::vector<Value> values_;
  std::vector<ValueId> operands_;
  std::vector<Link> links_;  // parallel to operands_
  std::vector<GraphId> bodies_;
  std::vector<NodeId> inputs_;
  std::vector<Symbol> output_names_;
  NodeId first_, terminator_;
  size_t live_ = 0;
};

class Graph::UseRange {
 public:
  class Iterator {
   public:
    using value_type = Use;
    using difference_type = std::ptrdiff_t;
    using iterator_category = std::forward_iterator_tag;
    Iterator() = default;
    Iterator(const Graph* g, uint32_t slot) : graph_(g), slot_(slot) {}
    Use operator*() const {
      const NodeId user = graph_->links_[slot_].user;
      return {user, slot_ - graph_->nodes_[user.raw].first_operand};
    }
    Iterator& operator++() {
      slot_ = graph_->links_[slot_].next;
      return *this;
    }
    Iterator operator++(int) { return std::exchange(*this, Iterator(graph_, graph_->links_[slot_].next)); }
    bool operator==(const Iterator& o) const { return slot_ == o.slot_; }

   private:
    const Graph* graph_ = nullptr;
    uint32_t slot_ = UseId::kNone;
  };
  UseRange(const Graph* g, uint32_t first) : graph_(g), first_(first) {}
  Iterator begin() const { return {graph_, first_}; }
  Iterator end() const { return {graph_, UseId::kNone}; }

 private:
  const Graph* graph_;
  uint32_t first_;
};

class Graph::NodeRange {
 public:
  class Iterator {
   public:
    Iterator(const Graph* g, NodeId n) : graph_(g), node_(n) {}
    NodeId operator*() const { return node_; }
    Iterator& operator++() {
      node_ = graph_->next(node_);
      return *this;
    }
    bool operator==(const Iterator& o) const { return node_ == o.node_; }

   private:
    const Graph* graph_;
    NodeId node_;
  };
  explicit NodeRange(const Graph* g) : graph_(g) {}
  Iterator begin() const { return {graph_, graph_->first()}; }
  Iterator end() const { return {graph_, graph_->terminator()}; }

 private:
  const Graph* graph_;
};

inline Graph::NodeRange Graph::nodes() const { return NodeRange(this); }
inline Graph::UseRange Graph::uses(ValueId v) const { return {this, values_[v.raw].first_use}; }

enum class Stage : uint8_t { Hir, Mir, Lir };

class Module {
 public:
  explicit Module(std::string_view name = "main");
  Module& operator=(const Module&) = delete;

  // A module with the same ids. Data are shared. O(nodes).
  std::unique_ptr<Module> copy() const { return std::unique_ptr<Module>(new Module(*this)); }

  ForeignText name;
  Stage stage = Stage::Mir;
  DimTable dims;
  TypeTable types;
  AttrTable attrs;
  DataTable data;
  Interner strings;
  DeviceConfigurations devices;

  Graph& main() { return *graphs_[0]; }
  const Graph& main() const { return *graphs_[0]; }
  Graph& graph(GraphId id) { return *graphs_[id.raw]; }
  const Graph& graph(GraphId id) const { return *graphs_[id.raw]; }
  GraphId make_graph(std::string_view name);
  size_t graph_count() const { return graphs_.size(); }

  Symbol symbol(std::string_view s) { return strings.intern(s); }
  // The text of a symbol: `text` for printing, `bytes` for look-ups and JsonWriter. Empty for the invalid symbol.
  ForeignText text(Symbol s) const { return ForeignText(bytes(s)); }
  std::string_view bytes(Symbol s) const { return s.valid() ? strings.view(s) : std::string_view(); }

  const Origin& origin(OriginId id) const { return origins_[id.raw]; }
  OriginId add_origin(Origin o);
  // The running pass. Replacement nodes created meanwhile record it in their origin.
  Symbol current_pass;

 private:
  Module(const Module&);

  std::deque<std::unique_ptr<Graph>> graphs_;
  std::deque<Origin> origins_;
};

inline const Type& Graph::type(ValueId v) const { return module_->types[values_[v.raw].type]; }

template <class A>
const A& Graph::attrs(NodeId n) const {
  return std::get<A>(module_->attrs[nodes_[n.raw].attrs]);
}

}  // namespace rlxc
