#include "ir/graph.h"

#include <algorithm>
#include <cassert>

namespace rlxc {

Graph::Graph(Module& module, GraphId id, std::string_view name) : module_(&module), id_(id), name_(name) {
  Node end;
  end.op = OpKind::Return;
  end.attrs = module.attrs.intern(NoAttrs{});
  nodes_.push_back(end);
  first_ = terminator_ = NodeId(0);
}

void Graph::reserve(size_t nodes) {
  nodes_.reserve(nodes + 1);
  values_.reserve(nodes);
  operands_.reserve(2 * nodes);
  links_.reserve(2 * nodes);
}

uint32_t Graph::allocate_operands(size_t count) {
  const auto first = static_cast<uint32_t>(operands_.size());
  operands_.resize(operands_.size() + count);
  links_.resize(operands_.size());
  return first;
}

void Graph::link_use(uint32_t slot, NodeId user) {
  Link& link = links_[slot];
  link = {UseId::kNone, UseId::kNone, user};
  if (!operands_[slot].valid()) return;
  Value& v = values_[operands_[slot].raw];
  link.prev = v.last_use;
  if (v.last_use != UseId::kNone) links_[v.last_use].next = slot;
  else v.first_use = slot;
  v.last_use = slot;
  ++v.use_count;
}

void Graph::unlink_use(uint32_t slot) {
  if (!operands_[slot].valid()) return;
  Value& v = values_[operands_[slot].raw];
  const Link link = links_[slot];
  (link.prev != UseId::kNone ? links_[link.prev].next : v.first_use) = link.next;
  (link.next != UseId::kNone ? links_[link.next].prev : v.last_use) = link.prev;
  --v.use_count;
}

void Graph::link_node(NodeId n, NodeId before) {
  Node& node = nodes_[n.raw];
  node.next = before;
  node.prev = nodes_[before.raw].prev;
  nodes_[before.raw].prev = n;
  if (node.prev.valid()) nodes_[node.prev.raw].next = n;
  else first_ = n;
}

void Graph::unlink_node(NodeId n) {
  const Node& node = nodes_[n.raw];
  nodes_[node.next.raw].prev = node.prev;
  if (node.prev.valid()) nodes_[node.prev.raw].next = node.next;
  else first_ = node.next;
}

NodeId Graph::make_node(OpKind op, std::span<const ValueId> operands, AttrId attrs, std::span<const TypeId> result_types,
                        std::span<const GraphId> bodies, NodeId before) {
  const NodeId id(nodes_.size());
  Node node;
  node.op = op;
  node.attrs = attrs;
  node.operand_count = static_cast<uint32_t>(operands.size());
  node.first_operand = allocate_operands(operands.size());
  node.first_result = static_cast<uint32_t>(values_.size());
  node.result_count = static_cast<uint16_t>(result_types.size());
  node.first_body = static_cast<uint32_t>(bodies_.size());
  node.body_count = static_cast<uint32_t>(bodies.size());
  nodes_.push_back(node);
  for (TypeId t : result_types) {
    Value v;
    v.type = t;
    v.def = id;
    values_.push_back(v);
  }
  bodies_.insert(bodies_.end(), bodies.begin(), bodies.end());
  for (size_t i = 0; i < operands.size(); ++i) {
    operands_[node.first_operand + i] = operands[i];
    link_use(node.first_operand + static_cast<uint32_t>(i), id);
  }
  link_node(id, before.valid() ? before : terminator_);
  if (op == OpKind::Input) inputs_.push_back(id);
  ++live_;
  return id;
}

void Graph::erase(NodeId n) {
  Node& node = nodes_[n.raw];
  assert(!node.dead && n != terminator_);
  for (uint32_t i = 0; i < node.operand_count; ++i) unlink_use(node.first_operand + i);
  unlink_node(n);
  node.dead = true;
  --live_;
}

void Graph::move_before(NodeId n, NodeId before) {
  if (n == before) return;
  unlink_node(n);
  link_node(n, before);
}

void Graph::set_operand(NodeId n, size_t index, ValueId v) {
  const uint32_t slot = nodes_[n.raw].first_operand + static_cast<uint32_t>(index);
  unlink_use(slot);
  operands_[slot] = v;
  link_use(slot, n);
}

void Graph::set_operands(NodeId n, std::span<const ValueId> list) {
  for (uint32_t i = 0; i < nodes_[n.raw].operand_count; ++i) unlink_use(nodes_[n.raw].first_operand + i);
  if (list.size() > nodes_[n.raw].operand_count) nodes_[n.raw].first_operand = allocate_operands(list.size());
  nodes_[n.raw].operand_count = static_cast<uint32_t>(list.size());
  for (size_t i = 0; i < list.size(); ++i) {
    const uint32_t slot = nodes_[n.raw].first_operand + static_cast<uint32_t>(i);
    operands_[slot] = list[i];
    link_use(slot, n);
  }
}

NodeId Graph::only_user(ValueId v) const { return has_one_use(v) ? links_[values_[v.raw].first_use].user : NodeId(); }

bool Graph::is_output(ValueId v) const {
  for (Use use : uses(v))
    if (use.user == terminator_) return true;
  return false;
}

void Graph::replace_all_uses(ValueId from, ValueId to) {
  if (from == to) return;
  Value& a = values_[from.raw];
  Value& b = values_[to.raw];
  for (uint32_t slot = a.first_use; slot != UseId::kNone; slot = links_[slot].next) operands_[slot] = to;
  if (a.first_use != UseId::kNone) {
    if (b.last_use != UseId::kNone) links_[b.last_use].next = a.first_use;
    else b.first_use = a.first_use;
    links_[a.first_use].prev = b.last_use;
    b.last_use = a.last_use;
    b.use_count += a.use_count;
    a.first_use = a.last_use = UseId::kNone;
    a.use_count = 0;
  }
  if (!b.name.valid()) b.name = a.name;

  Node& maker = nodes_[b.def.raw];
  const Node& old = nodes_[a.def.raw];
  if (!module_->current_pass.valid() || has_trait(maker.op, kLeaf)) return;
  const bool fresh = maker.origin.valid() && !module_->origin(maker.origin).passes.empty() &&
                     module_->origin(maker.origin).passes.back() == module_->current_pass;
  if (maker.name.valid() && !fresh) return;  // an existing node keeps its provenance
  Origin o = maker.origin.valid() ? module_->origin(maker.origin) : Origin{};
  auto add = [](std::vector<Symbol>& list, Symbol s) {
    if (s.valid() && std::find(list.begin(), list.end(), s) == list.end()) list.push_back(s);
  };
  if (old.origin.valid()) {
    const Origin& from_origin = module_->origin(old.origin);
    for (Symbol s : from_origin.sources) add(o.sources, s);
    for (Symbol s : from_origin.passes) add(o.passes, s);
  }
  add(o.sources, old.name);
  std::erase(o.passes, module_->current_pass);
  o.passes.push_back(module_->current_pass);
  maker.origin = module_->add_origin(std::move(o));
  if (!maker.name.valid()) maker.name = old.name;
}

void Graph::add_output(ValueId v, Symbol output_name) {
  // A list at the end of the pool grows in place.
  if (const Node& t = nodes_[terminator_.raw]; t.first_operand + t.operand_count != operands_.size()) {
    const std::vector<ValueId> list = outputs().copy();
    set_operands(terminator_, {});
    nodes_[terminator_.raw].first_operand = static_cast<uint32_t>(operands_.size());
    set_operands(terminator_, list);
  }
  const uint32_t slot = allocate_operands(1);
  operands_[slot] = v;
  link_use(slot, terminator_);
  const size_t count = nodes_[terminator_.raw].operand_count++;
  output_names_.resize(count);
  output_names_.push_back(output_name);
}

void Graph::set_outputs(std::span<const ValueId> list) {
  set_operands(terminator_, list);
  output_names_.resize(nodes_[terminator_.raw].operand_count);
}

void Graph::set_output_name(size_t i, Symbol s) {
  output_names_.resize(std::max(output_names_.size(), i + 1));
  output_names_[i] = s;
}

void Graph::remove_input(NodeId n) { std::erase(inputs_, n); }

ForeignText Graph::label(NodeId n) const {
  const Node& node = nodes_[n.raw];
  if (node.name.valid()) return module_->text(node.name);
  if (node.origin.valid() && !module_->origin(node.origin).sources.empty())
    return module_->text(module_->origin(node.origin).sources.front());
  if (node.result_count > 0 && values_[node.first_result].name.valid()) return module_->text(values_[node.first_result].name);
  return ForeignText("%" + std::to_string(node.first_result));
}

void Graph::clear() { *this = Graph(*module_, id_, name_.bytes()); }

void Graph::compact() {
  std::vector<NodeId> node_map(nodes_.size());
  std::vector<ValueId> value_map(values_.size());
  std::vector<NodeId> order;
  for (NodeId n : nodes()) order.push_back(n);
  order.push_back(terminator_);

  std::vector<Node> nodes;
  std::vector<Value> values;
  std::vector<ValueId> operands;
  std::vector<GraphId> bodies;
  nodes.reserve(order.size());
  for (NodeId n : order) {
    Node node = nodes_[n.raw];
    const NodeId id(nodes.size());
    node_map[n.raw] = id;
    for (uint32_t r = 0; r < node.result_count; ++r) {
      value_map[node.first_result + r] = ValueId(values.size());
      Value v = values_[node.first_result + r];
      v.def = id;
      v.first_use = v.last_use = UseId::kNone;
      v.use_count = 0;
      values.push_back(v);
    }
    node.first_result = static_cast<uint32_t>(values.size()) - node.result_count;
    const auto old_operands = this->operands(n);
    node.first_operand = static_cast<uint32_t>(operands.size());
    for (ValueId v : old_operands) operands.push_back(v.valid() ? value_map[v.raw] : ValueId());
    const auto old_bodies = this->bodies(n);
    node.first_body = static_cast<uint32_t>(bodies.size());
    bodies.insert(bodies.end(), old_bodies.begin(), old_bodies.end());
    nodes.push_back(node);
  }
  nodes_ = std::move(nodes);
  values_ = std::move(values);
  operands_ = std::move(operands);
  bodies_ = std::move(bodies);
  links_.assign(operands_.size(), {});
  for (size_t i = 0; i < nodes_.size(); ++i) {
    nodes_[i].prev = i ? NodeId(i - 1) : NodeId();
    nodes_[i].next = i + 1 < nodes_.size() ? NodeId(i + 1) : NodeId();
    for (uint32_t k = 0; k < nodes_[i].operand_count; ++k) link_use(nodes_[i].first_operand + k, NodeId(i));
  }
  first_ = NodeId(0);
  terminator_ = NodeId(nodes_.size() - 1);
  for (NodeId& n : inputs_) n = node_map[n.raw];
}

Module::Module(std::string_view module_name) : name(module_name) { make_graph("main"); }

Module::Module(const Module& o)
    : name(o.name),
      stage(o.stage),
      dims(o.dims),
      types(o.types),
      attrs(o.attrs),
      data(o.data),
      strings(o.strings),
      devices(o.devices),
      current_pass(o.current_pass),
      origins_(o.origins_) {
  for (const std::unique_ptr<Graph>& g : o.graphs_) {
    graphs_.push_back(std::unique_ptr<Graph>(new Graph(*g)));
    graphs_.back()->module_ = this;
  }
}

GraphId Module::make_graph(std::string_view graph_name) {
  const GraphId id(graphs_.size());
  graphs_.push_back(std::make_unique<Graph>(*this, id, graph_name));
  return id;
}

OriginId Module::add_origin(Origin o) {
  origins_.push_back(std::move(o));
  return OriginId(origins_.size() - 1);
}

}  // namespace rlxc
