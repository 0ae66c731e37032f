#include "export/onnx/writer.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "export/onnx/export.h"
#include "ir/dim_postfix.h"
#include "ir/graphs.h"

namespace rlxc::onnx_export {
namespace {

constexpr uint64_t kLargest = uint64_t{1900} << 20;  // of a protobuf message: 2 GiB
constexpr uint64_t kSmall = 1024;                    // bytes of a weight that stays in the model

// Versions of the format by that of the operators.
constexpr int64_t kDevices = 11;  // the first with device configurations
int64_t ir_version(int64_t opset) { return opset < 15 ? 7 : opset < 19 ? 8 : opset < 21 ? 9 : 10; }

// dims 1, data_type 2, string_data 6, name 8, raw_data 9, external_data 13, data_location 14
Message tensor_head(const TensorData& d, const std::string& name) {
  Message t;
  for (int64_t n : d.dims) t.integer(1, n);
  t.integer(2, onnx_dtype(d.dtype)).bytes(8, name);
  return t;
}

Message sharding(const TensorSharding& t) {  // tensor_name 1, device 2, index_to_device_group_map 3, sharded_dim 4
  Message out;
  out.bytes(1, t.tensor);
  for (int64_t d : t.devices) out.integer(2, d);
  for (const auto& [id, devices] : t.groups) {  // key 1, value 2
    Message group;
    group.integer(1, id);
    for (int64_t d : devices) group.integer(2, d);
    out.message(3, group);
  }
  for (const ShardedAxis& a : t.axes) {  // axis 1, simple_sharding 2: dim_value 1, dim_param 2, num_shards 3
    Message axis;
    axis.integer(1, a.axis);
    for (const ShardedAxis::Part& p : a.parts) {
      Message part;
      if (p.size) part.integer(1, *p.size);
      else if (!p.symbol.empty()) part.bytes(2, p.symbol);
      axis.message(2, part.integer(3, p.shards));
    }
    out.message(4, axis);
  }
  return out;
}

// configuration_id 1, sharding_spec 2, pipeline_stage 3; of one of the nodes that stand for the node
Message node_devices(const NodeDevices& d, const Names& in, const Names& results) {
  Message out;
  out.bytes(1, d.configuration);
  for (const TensorSharding& t : d.tensors)
    if (std::ranges::find(in, t.tensor) != in.end() || std::ranges::find(results, t.tensor) != results.end())
      out.message(2, sharding(t));
  if (d.stage) out.integer(3, *d.stage);
  return out;
}

Message device_configuration(const DeviceConfiguration& c) {  // name 1, num_devices 2, device 3
  Message out;
  out.bytes(1, c.name).integer(2, c.devices);
  for (const std::string& name : c.device_names) out.bytes(3, name);
  return out;
}

void add_contents(const TensorData& d, Message* t) {
  for (const std::string& s : d.strings) t->bytes(6, s);
  if (d.dtype == DType::String) return;
  const std::string_view bytes(reinterpret_cast<const char*>(d.bytes.data()), d.bytes.size());
  if (!d.splat) return void(t->bytes(9, bytes));
  std::string all;
  const int64_t count = d.elements();
  all.reserve(static_cast<size_t>(count) * bytes.size());
  for (int64_t i = 0; i < count; ++i) all += bytes;
  t->bytes(9, all);
}

}  // namespace

std::string tensor_file(const TensorData& d, const std::string& name) {
  Message t = tensor_head(d, name);
  add_contents(d, &t);
  return t.text();
}

Message Writer::tensor(const TensorData& d, const std::string& name) {
  Message t = tensor_head(d, name);
  using Weights = ExportOptions::Weights;
  const bool absent = d.dtype != DType::String && d.bytes.empty() && d.elements() > 0;
  const bool shared = !d.file.empty() && (absent || (options_.weights == Weights::Shared && d.file != options_.read_from));
  const bool beside = options_.weights == Weights::Beside && d.size_bytes() > kSmall && !in_function_;
  if (d.dtype != DType::String && (shared || beside)) {
    const auto entry = [&](std::string_view key, const std::string& value) {
      t.message(13, Message().bytes(1, key).bytes(2, value));
    };
    entry("location", shared ? d.file : options_.data_file);
    entry("offset", std::to_string(shared ? d.offset : external_end_));
    entry("length", std::to_string(d.size_bytes()));
    if (!shared) {
      external_->push_back({&d, external_end_});
      external_end_ = (external_end_ + d.size_bytes() + kDataAlignment - 1) / kDataAlignment * kDataAlignment;
    }
    return std::move(t.integer(14, 1));
  }
  if (absent) diagnostics_.error(Code::MissingWeights, "the contents of " + ForeignText(name).quoted() + " are not known");
  else add_contents(d, &t);
  return t;
}

bool Site::is_number(size_t i, double value) const {
  const NodeId from = g.def(g.operand(n, i));
  if (g.op(from) != OpKind::Constant) return false;
  const TensorData& d = w.module().data[g.attrs<DataAttrs>(from).data];
  return d.dtype != DType::String && d.elements() == 1 && element_as_double(d, 0) == value;
}
Names Site::all() const {
  Names out;
  for (size_t i = 0; i < g.operands(n).size(); ++i) out.push_back(in(i));
  while (!out.empty() && out.back().empty()) out.pop_back();
  return out;
}
Names Site::outs() const {
  Names names;
  for (size_t r = 0; r < g.result_count(n); ++r) names.push_back(out(r));
  return names;
}

namespace {

using RuleTable = std::vector<const RuleEntry*>;
RuleTable table_of(std::initializer_list<std::span<const RuleEntry>> families) {
  RuleTable rules(kOpCount);
  for (std::span<const RuleEntry> entries : families)
    for (const RuleEntry& e : entries) rules[static_cast<size_t>(e.op)] = &e;
  return rules;
}

}  // namespace

const RuleEntry* find_rule(const Graph& g, NodeId n, const OperatorSet& set) {
  static const RuleTable standard = table_of({elementwise_rules(), movement_rules(), nn_rules(), sequence_rules()});
  static const RuleTable microsoft = table_of({microsoft_rules()});
  const auto row = [&](const RuleTable& table) -> const RuleEntry* {
    const RuleEntry* rule = table[static_cast<size_t>(g.op(n))];
    if (!rule || set.opset < rule->since) return nullptr;
    const TypeLimit& t = rule->types;
    const bool takes = set.opset >= t.all || t.before(g.dtype(g.operand(n, t.operand)));
    return takes && (!rule->fits || rule->fits(g, n, set.opset)) ? rule : nullptr;
  };
  const RuleEntry* own = set.microsoft ? row(microsoft) : nullptr;
  return own ? own : row(standard);
}

bool is_exportable(const Graph& g, NodeId n, const OperatorSet& set) {
  return has_trait(g.op(n), kLeaf | kTerminator) || find_rule(g, n, set);
}

bool has_dtype(DType t, int64_t opset) {
  const int code = onnx_dtype(t);
  return code <= 16 || (code <= 20 && opset >= 19) || (code <= 22 && opset >= 21);
}

std::string NameSet::fresh(std::string_view stem) {
  const std::string name(stem.empty() ? "v" : stem);
  const auto is_free = [&](const std::string& s) { return !reserved_.contains(s) && take(s); };
  if (is_free(name)) return name;
  size_t& count = counters_[name];
  for (;;)
    if (std::string numbered = name + "_" + std::to_string(++count); is_free(numbered)) return numbered;
}
std::string NameSet::claim(std::string_view name) { return !name.empty() && take(name) ? std::string(name) : fresh(name); }

namespace {

// May be one of the nodes that an importer makes of a size.
bool computes_size(OpKind op) { return op == OpKind::DimValue || op == OpKind::Cast; }

}  // namespace

// Reserves the names of nodes, weights and constants. An importer names the nodes that compute sizes after the operator that
// needs them; that operator has the name.
void Writer::reserve_names() {
  for (GraphId id : graphs_in_use(module_))
    for (const Graph& g = module_.graph(id); NodeId n : g.nodes()) {
      if (g.node_name(n).valid()) {
        nodes_.reserve(module_.bytes(g.node_name(n)));
        if (!computes_size(g.op(n))) operator_names_.insert(module_.bytes(g.node_name(n)));
      }
      if (g.op(n) != OpKind::Param && g.op(n) != OpKind::Constant) continue;
      const Symbol name = g.value_name(g.result(n));
      if (!name.valid()) continue;
      values_.reserve(module_.bytes(name));
      const DataId data = g.attrs<DataAttrs>(n).data;
      if (g.op(n) != OpKind::Constant || !data.valid()) continue;
      if (const std::string key = content_key(module_.data[data]); !key.empty()) own_names_.try_emplace(key, module_.bytes(name));
    }
}

std::string Writer::name_of(const Graph& g, ValueId v) {
  if (!v.valid()) return {};
  auto& names = top().names;
  if (const auto at = names.find(v.raw); at != names.end()) return at->second;
  // Names of values on the way depend on the order alone, so that a model that is written again stays the same.
  const OpKind op = g.op(g.def(v));
  std::string name;
  if (op == OpKind::Param || op == OpKind::Constant) name = leaf(g, v);
  else if (has_trait(op, kLeaf) && g.value_name(v).valid()) name = values_.claim(module_.bytes(g.value_name(v)));
  else name = fresh({});
  return names[v.raw] = std::move(name);
}

std::string Writer::leaf(const Graph& g, ValueId v) {
  const NodeId n = g.def(v);
  const DataAttrs& a = g.attrs<DataAttrs>(n);
  const DataId data = a.data.valid() ? a.data : a.place;
  if (!data.valid()) {
    diagnostics_.error(Code::MissingWeights, "the contents of " + g.label(n).quoted() + " are not known");
    return fresh({});
  }
  const TensorData& contents = module_.data[data];
  if (in_function_ || (g.op(n) == OpKind::Constant && !content_key(contents).empty())) return constant(contents, "c");
  std::string& written = weights_[data.raw];
  if (!written.empty()) return written;
  written = g.value_name(v).valid() ? values_.claim(module_.bytes(g.value_name(v))) : fresh("c");
  scopes_.front().initializers.push_back(tensor(contents, written));
  return written;
}
void Writer::set_name(const Graph&, ValueId v, std::string name) { top().names[v.raw] = std::move(name); }

// For programs that do not know the operator: the identity.
Message Writer::stop_gradient_function() const {
  Message out;  // name 1, input 4, output 5, node 7, opset_import 9, domain 10
  out.bytes(1, "StopGradient").bytes(4, "x").bytes(5, "y");
  out.message(7, Message().bytes(1, "x").bytes(2, "y").bytes(4, "Identity"));
  return out.message(9, Message().bytes(1, "").integer(2, opset())).bytes(10, kOwnDomain);
}

void Writer::node_of(std::string_view op, const Names& in, const Attributes& a, const Names& results, std::string_view domain) {
  Message n;  // input 1, output 2, name 3, op_type 4, attribute 5, domain 7
  size_t count = in.size();
  while (count > 0 && in[count - 1].empty()) --count;
  for (size_t i = 0; i < count; ++i) n.bytes(1, in[i]);
  for (const std::string& s : results) n.bytes(2, s);
  const bool own = !node_name_.empty() && nodes_.take(node_name_);
  n.bytes(3, own ? std::string(node_name_) : nodes_.fresh(std::string(op) + "_" + results[0]));  // unique, as ONNX Runtime wants
  n.bytes(4, op);
  for (const Message& each : a.all()) n.message(5, each);
  for (const NodeDevices& d : devices_) n.message(10, node_devices(d, in, results));
  if (!domain.empty()) {
    n.bytes(7, domain);
    const bool first = domains_.try_emplace(std::string(domain), domain == kMachineLearning ? kMachineLearningVersion : 1).second;
    if (first && domain == kOwnDomain) functions_.push_back(stop_gradient_function());
  }
  top().nodes.push_back(std::move(n));
}
std::string Writer::node(std::string_view op, const Names& in, const Attributes& a, std::string result) {
  if (result.empty()) result = fresh("v");
  const std::string_view owner = std::exchange(node_name_, {});
  node_of(op, in, a, {result});
  node_name_ = owner;
  return result;
}

std::string Writer::content_key(const TensorData& d) const {
  constexpr uint64_t kMostBytes = 256;
  if (d.size_bytes() > kMostBytes || d.dtype == DType::String) return {};
  std::string key(name(d.dtype));
  for (int64_t n : d.dims) key += "," + std::to_string(n);
  key += ":";
  for (int64_t i = d.splat ? d.elements() : 1; i > 0; --i)
    key.append(reinterpret_cast<const char*>(d.bytes.data()), d.bytes.size());
  return key;
}

Message Writer::constant_node(const TensorData& d, const std::string& result) {
  Message n;
  n.bytes(2, result).bytes(4, "Constant").message(5, Attributes().tensor("value", tensor(d, result)).all()[0]);
  return n;
}

std::string Writer::constant(const TensorData& d, std::string_view stem) {
  const std::string key = content_key(d);
  if (const auto at = constants_.find(key); at != constants_.end()) return at->second;
  const auto own = own_names_.find(key);
  const std::string made = own != own_names_.end() ? values_.claim(own->second) : fresh(stem);
  if (in_function_) scopes_.front().nodes.push_back(constant_node(d, made));
  else scopes_.front().initializers.push_back(tensor(d, made));
  if (!key.empty()) constants_[key] = made;
  return made;
}
std::string Writer::ints(const std::vector<int64_t>& v) {
  return constant(make_data(DType::I64, {static_cast<int64_t>(v.size())}, v), "c");
}
std::string Writer::scalar(DType t, double v) {
  return constant(make_data(t, {}, std::span<const std::byte>(element_bytes(t, v))), "c");
}

void Writer::note_sizes(const Graph& g, ValueId v) {
  if (g.type(v).kind != TypeKind::Tensor) return;
  for (size_t axis = 0; axis < g.dims(v).size(); ++axis) {
    const Dim d = g.dims(v)[axis];
    if (module_.dims.constant_value(d)) continue;
    auto& places = places_[module_.dims.text(d)];
    if (places.empty()) places.push_back({name_of(g, v), static_cast<int64_t>(axis), scopes_.size()});
  }
}

const std::string* Writer::found(const std::string& key) const {
  for (const Scope& s : scopes_)
    if (const auto at = s.computed.find(key); at != s.computed.end()) return &at->second;
  return nullptr;
}

std::string Writer::node_once(std::string_view op, const Names& in, const Attributes& a) {
  std::string key(op);  // no dim is spelled like this
  for (const std::string& name : in) key += "[" + name;
  if (const std::string* made = found(key)) return *made;
  return top().computed[key] = node(op, in, a);
}

std::string Writer::vector_of(Dim d) {
  if (const auto v = module_.dims.constant_value(d)) return ints({*v});
  const std::string text = module_.dims.text(d);
  if (const std::string* made = found(text)) return *made;
  if (const auto at = places_.find(text); at != places_.end() && !at->second.empty())
    return top().computed[text] = extent(at->second.front().value, at->second.front().axis);
  struct Part {
    std::string name;
    bool positive;  // 0 or more in every run
  };
  const std::vector<Dim> whole = {d};
  for (size_t i : module_.dims.named_sizes_of(whole))  // each after those that it names, so that no call is deep
    if (module_.dims.named_size(i) != d) vector_of(module_.dims.named_size(i));
  std::vector<Part> stack;
  const bool is_named = text.starts_with('#');
  for (const std::string& word : is_named ? definition_postfix(module_.dims, d) : dim_postfix(module_.dims, d)) {
    if (word.starts_with('#')) {
      const Dim size = *module_.dims.size_named(word);
      std::string made = vector_of(size);
      stack.push_back({std::move(made), !signed_.contains(word)});
      continue;
    }
    if (word.starts_with('$')) {
      const std::string symbol = word.substr(1);
      const auto at = places_.find(symbol);
      if (at == places_.end() || at->second.empty()) {
        diagnostics_.error(Code::UnboundDim,
                           "the size " + ForeignText(symbol).quoted() + " is that of no input, nor computed from such sizes", {},
                           "--bind gives values to it, or to the sizes from which it follows");
        return ints({1});
      }
      const std::string* made = found(symbol);
      if (!made) made = &(top().computed[symbol] = extent(at->second.front().value, at->second.front().axis));
      stack.push_back({*made, true});
      continue;
    }
    const bool is_number = word[0] == '-' ? word.size() > 1 : (word[0] >= '0' && word[0] <= '9');
    if (is_number) {
      stack.push_back({ints({std::stoll(word)}), word[0] != '-'});
      continue;
    }
    const Part second = std::move(stack.back());
    stack.pop_back();
    const Part first = std::move(stack.back());
    stack.pop_back();
    const std::string &a = first.name, &b = second.name;
    const bool both = first.positive && second.positive;
    if (word == "+") stack.push_back({node_once("Add", {a, b}), both});
    else if (word == "*") stack.push_back({node_once("Mul", {a, b}), both});
    else if (word == "mod") stack.push_back({node_once("Mod", {a, b}), second.positive});
    else if (word == "min") stack.push_back({node_once("Min", {a, b}), both});
    else if (word == "max") stack.push_back({node_once("Max", {a, b}), first.positive || second.positive});
    else if (both) stack.push_back({node_once("Div", {a, b}), true});
    else stack.push_back({node_once("Div", {node_once("Sub", {a, node_once("Mod", {a, b})}), b}), false});  // rounded down
  }
  if (is_named && !stack.back().positive) signed_.insert(text);
  return top().computed[text] = stack.back().name;
}

std::string Writer::sizes(std::span<const Dim> all) {
  std::vector<int64_t> known;
  for (Dim d : all)
    if (const auto v = module_.dims.constant_value(d)) known.push_back(*v);
  if (known.size() == all.size()) return ints(known);
  Names parts;
  for (Dim d : all) parts.push_back(vector_of(d));
  if (parts.size() == 1) return parts[0];
  return node_once("Concat", parts, Attributes().integer("axis", 0));
}
std::string Writer::size(Dim d) {
  if (const auto v = module_.dims.constant_value(d)) return constant(make_data(DType::I64, {}, std::vector<int64_t>{*v}), "c");
  return node_once("Squeeze", {vector_of(d), ints({0})});
}

std::string Writer::extent(const std::string& value, int64_t axis) {
  if (opset() >= 15) return node("Shape", {value}, Attributes().integer("start", axis).integer("end", axis + 1));
  return node("Gather", {node("Shape", {value}), ints({axis})}, Attributes().integer("axis", 0));
}

namespace {

// A constant, or a size that is recorded to equal one.
std::optional<int64_t> known_size(const DimTable& dims, Dim d) {
  if (const auto value = dims.constant_value(d)) return value;
  for (const auto& [a, b] : dims.equalities())
    if (a == d || b == d)
      if (const auto value = dims.constant_value(a == d ? b : a)) return value;
  return std::nullopt;
}

}  // namespace

Message Writer::type(const Type& t) {  // tensor_type 1, sequence_type 4, map_type 5, optional_type 9
  if (t.kind == TypeKind::Sequence || t.kind == TypeKind::Optional)
    return std::move(Message().message(t.kind == TypeKind::Sequence ? 4 : 9, Message().message(1, type(element_type(t)))));
  if (t.kind == TypeKind::Map) {  // key_type 1, value_type 2
    Message map;
    map.integer(1, onnx_dtype(key_dtype(t.key))).message(2, type(tensor_type(t.dtype, {})));
    return std::move(Message().message(5, map));
  }
  Message shape;  // dim 1: dim_value 1, dim_param 2
  for (Dim d : t.dims) {
    Message dim;
    if (const auto value = known_size(module_.dims, d)) dim.integer(1, *value);
    else if (const auto symbol = symbol_name(module_.dims, d)) dim.bytes(2, *symbol);
    shape.message(1, dim);
  }
  Message tensor;
  tensor.integer(1, onnx_dtype(t.dtype));
  if (t.ranked) tensor.message(2, shape);
  return std::move(Message().message(1, tensor));
}

Message Writer::value_info(const Graph& g, ValueId v, const std::string& name) {
  return std::move(Message().bytes(1, name).message(2, type(g.type(v))));
}

void Writer::graph_nodes(const Graph& g) {
  const std::vector<NodeDevices> owner = devices_;  // of the node that these stand for
  for (NodeId n : g.nodes()) {
    const OpKind op = g.op(n);
    if (has_trait(op, kLeaf)) continue;
    const std::string_view named = g.node_name(n).valid() ? module_.bytes(g.node_name(n)) : std::string_view();
    node_name_ = computes_size(op) && operator_names_.contains(named) ? std::string_view() : named;
    devices_ = named.empty() ? owner : devices_of(g, n, named);
    const auto body = options_.bodies.find({g.id(), n});
    const RuleEntry* rule = body == options_.bodies.end() ? find_rule(g, n, options_.operators) : nullptr;
    if (body != options_.bodies.end()) {
      node_by_body(g, n, body->second);
    } else if (!rule || !rule->write(Site{*this, g, n})) {
      diagnostics_.error(Code::UnsupportedOp, g.label(n).quoted() + " (" + std::string(name(op)) + ") has no ONNX operator", {},
                         "of opset " + std::to_string(opset()));
      continue;
    }
    for (size_t r = 0; r < g.result_count(n); ++r)
      if (top().names.contains(g.result(n, r).raw)) note_sizes(g, g.result(n, r));  // else a part of another operator
  }
  node_name_ = {};
  devices_ = owner;
}

// The device configurations of the node, with the names of its values in the model that is written. Values that the node no
// longer reads or gives are left out.
std::vector<NodeDevices> Writer::devices_of(const Graph& g, NodeId n, std::string_view named) {
  const auto at = module_.devices.nodes.find(named);
  if (in_function_ || at == module_.devices.nodes.end()) return {};
  std::map<std::string_view, std::string> names;
  const auto add = [&](ValueId v) {
    if (v.valid() && g.value_name(v).valid()) names.emplace(module_.bytes(g.value_name(v)), name_of(g, v));
  };
  for (ValueId v : g.operands(n)) add(v);
  for (size_t r = 0; r < g.result_count(n); ++r) add(g.result(n, r));
  std::vector<NodeDevices> out = at->second;
  for (NodeDevices& d : out) {
    std::erase_if(d.tensors, [&](const TensorSharding& t) { return !names.contains(t.tensor); });
    for (TensorSharding& t : d.tensors) {
      configured_.insert({at->first, t.tensor});
      t.tensor = names.at(t.tensor);
    }
  }
  configured_.insert({at->first, {}});
  return out;
}

void Writer::warn_of_lost_devices() {
  size_t lost = 0;
  std::string first;
  const auto look = [&](const std::string& node, const std::string& tensor) {
    if (configured_.contains({node, tensor})) return;
    if (++lost == 1) first = tensor.empty() ? node : tensor;
  };
  for (const auto& [node, list] : module_.devices.nodes) {
    look(node, {});
    for (const NodeDevices& d : list)
      for (const TensorSharding& t : d.tensors) look(node, t.tensor);
  }
  if (lost > 0)
    diagnostics_.warning(Code::BadSharding, "device configurations of " + std::to_string(lost) +
                                                " nodes and values are left out: the model that is written lacks " +
                                                ForeignText(first).quoted() + (lost > 1 ? " and others" : ""));
}

void Writer::node_by_body(const Graph& g, NodeId n, const Body& b) {
  Names in, outs;
  for (ValueId v : g.operands(n))
    if (v.valid()) in.push_back(name_of(g, v));
  for (size_t r = 0; r < g.result_count(n); ++r) outs.push_back(name_of(g, g.result(n, r)));
  const Graph& body = module_.graph(b.graph);
  if (!b.function.empty()) {
    const std::string_view owner = node_name_;
    const std::vector<NodeDevices> devices = devices_;
    if (written_functions_.insert(b.graph.raw).second) functions_.push_back(function(b));
    node_name_ = owner;
    devices_ = devices;
    return node_of(b.function, in, {}, outs, b.domain);
  }
  scopes_.emplace_back();
  top().graph = &body;
  for (size_t i = 0; i < in.size(); ++i) set_name(body, body.result(body.inputs()[i]), in[i]);
  std::vector<bool> direct;  // is the value of the body that of the node?
  for (size_t i = 0; i < outs.size(); ++i) {
    const ValueId v = body.outputs()[i];
    direct.push_back(!has_trait(body.op(body.def(v)), kLeaf) && !top().names.contains(v.raw));
    if (direct[i]) set_name(body, v, outs[i]);
  }
  graph_nodes(body);
  for (size_t i = 0; i < outs.size(); ++i)
    if (!direct[i]) node("Identity", {name_of(body, body.outputs()[i])}, {}, outs[i]);
  std::vector<Message> nodes = std::move(top().nodes);
  scopes_.pop_back();
  for (auto& [size, places] : places_)
    for (Place& p : places) p.depth = std::min(p.depth, scopes_.size());
  top().nodes.insert(top().nodes.end(), std::make_move_iterator(nodes.begin()), std::make_move_iterator(nodes.end()));
}

Names Writer::graph_outputs(const Graph& g) {
  Names names;
  std::unordered_set<std::string> taken;
  for (NodeId n : g.inputs()) taken.insert(name_of(g, g.result(n)));
  for (ValueId v : g.outputs()) {
    const std::string name = name_of(g, v);
    names.push_back(taken.insert(name).second ? name : node("Identity", {name}));
  }
  return names;
}

Message Writer::function(const Body& b) {
  const Graph& g = module_.graph(b.graph);
  std::vector<Scope> scopes;
  std::swap(scopes, scopes_);
  auto symbols = std::exchange(places_, {});
  auto constants = std::exchange(constants_, {});
  in_function_ = true;
  devices_ = {};
  scopes_.emplace_back();
  top().graph = &g;
  node_name_ = {};
  Message out;  // name 1, input 4, output 5, node 7, opset_import 9, domain 10
  out.bytes(1, b.function);
  for (NodeId n : g.inputs()) {
    out.bytes(4, name_of(g, g.result(n)));
    note_sizes(g, g.result(n));
  }
  graph_nodes(g);
  for (const std::string& name : graph_outputs(g)) out.bytes(5, name);
  for (const Message& n : top().nodes) out.message(7, n);
  out.message(9, Message().bytes(1, "").integer(2, opset()));
  if (options_.operators.microsoft) out.message(9, Message().bytes(1, "com.microsoft").integer(2, 1));
  out.bytes(10, b.domain);
  in_function_ = false;
  scopes_ = std::move(scopes);
  places_ = std::move(symbols);
  constants_ = std::move(constants);
  return out;
}

// Values that are an output of the main graph have its name. Names that an input or an output before it has get a number.
void Writer::name_outputs(const Graph& g) {
  std::unordered_set<std::string> taken;
  for (size_t i = 0; i < g.outputs().size(); ++i) {
    const ValueId v = g.outputs()[i];
    std::string& name = output_names_.emplace_back(module_.bytes(g.output_name(i)));
    if (name.empty()) continue;
    const auto named = top().names.find(v.raw);  // an input, or an output twice
    if (named != top().names.end() && named->second == name && taken.insert(name).second) continue;
    if (!values_.take(name)) {
      const std::string numbered = values_.fresh(name);
      diagnostics_.warning(Code::DuplicateName, "another input or output has the name of output " + ForeignText(name).quoted(),
                           {}, "the model that is written names it " + ForeignText(numbered).quoted());
      name = numbered;
    }
    taken.insert(name);
    if (named == top().names.end() && !has_trait(g.op(g.def(v)), kLeaf)) set_name(g, v, name);
  }
}

// Each output has a name of its own, which no other value has.
void Writer::outputs(const Graph& g, Message* to) {
  std::unordered_set<std::string> taken;
  for (size_t i = 0; i < g.outputs().size(); ++i) {
    const ValueId v = g.outputs()[i];
    const bool is_main = scopes_.size() == 1;
    if (g.op(g.def(v)) == OpKind::Constant && !is_main) {  // within a body: the condition of a loop stays a known one
      const Symbol own = g.value_name(v);
      const std::string name = own.valid() ? values_.claim(module_.bytes(own)) : fresh("out");
      top().nodes.push_back(constant_node(module_.data[g.attrs<DataAttrs>(g.def(v)).data], name));
      to->message(12, value_info(g, v, name));
      continue;
    }
    std::string name = name_of(g, v);
    const std::string own = is_main ? output_names_[i] : std::string();
    const bool made_here = !is_main && !has_trait(g.op(g.def(v)), kLeaf) && taken.insert(name).second;
    if (!made_here && (!is_main || name != own)) name = node("Identity", {name}, {}, own.empty() ? fresh("out") : own);
    to->message(12, value_info(g, v, name));
  }
}

Message Writer::body(GraphId id, std::span<const std::string> outer, size_t first_input, size_t last_input) {
  const Graph& g = module_.graph(id);
  const std::string_view owner = node_name_;
  scopes_.emplace_back();
  top().graph = &g;
  Message out;  // node 1, name 2, input 11, output 12
  out.bytes(2, fresh("body"));
  for (size_t i = 0; i < g.inputs().size(); ++i) {
    const ValueId v = g.result(g.inputs()[i]);
    const bool own = i >= first_input && i < last_input;
    set_name(g, v, own ? fresh("in") : outer[i]);
    if (own) out.message(11, value_info(g, v, name_of(g, v)));
  }
  for (size_t i = 0; i < g.inputs().size(); ++i) note_sizes(g, g.result(g.inputs()[i]));
  graph_nodes(g);
  outputs(g, &out);
  for (const Message& n : top().nodes) out.message(1, n);
  const size_t depth = scopes_.size();
  for (auto& [size, places] : places_) std::erase_if(places, [&](const Place& p) { return p.depth >= depth; });
  scopes_.pop_back();
  node_name_ = owner;
  return out;
}

std::optional<std::string> Writer::model() {
  const Graph& g = module_.main();
  const size_t errors = diagnostics_.errors();
  reserve_names();
  scopes_.emplace_back();
  top().graph = &g;
  Message graph;  // node 1, name 2, initializer 5, input 11, output 12
  graph.bytes(2, module_.name.bytes().empty() ? "main" : module_.name.bytes());
  for (NodeId n : g.inputs()) {
    graph.message(11, value_info(g, g.result(n), name_of(g, g.result(n))));
    note_sizes(g, g.result(n));
  }
  name_outputs(g);
  graph_nodes(g);
  outputs(g, &graph);
  if (diagnostics_.errors() != errors) return std::nullopt;
  uint64_t total = graph.text().size();
  for (const Message& n : top().nodes) total += n.text().size();
  for (const Message& t : top().initializers) total += t.text().size();
  if (total > kLargest) {
    diagnostics_.error(Code::TooLarge,
                       "the model would take " + std::to_string(total) + " bytes, more than a protobuf message may", {},
                       "write it beside the model, whose weights it then shares");
    return std::nullopt;
  }
  for (const Message& n : top().nodes) graph.message(1, n);
  for (const Message& t : top().initializers) graph.message(5, t);
  warn_of_lost_devices();
  Message model;  // ir_version 1, producer_name 2, producer_version 3, graph 7, opset_import 8, functions 25, configuration 26
  model.integer(1, std::max(ir_version(opset()), module_.devices.empty() ? 0 : kDevices))
      .bytes(2, "rlxc")
      .bytes(3, options_.producer_version);
  model.message(7, graph).message(8, Message().bytes(1, "").integer(2, opset()));
  for (const auto& [domain, version] : domains_) model.message(8, Message().bytes(1, domain).integer(2, version));
  for (const Message& f : functions_) model.message(25, f);
  for (const DeviceConfiguration& c : module_.devices.all) model.message(26, device_configuration(c));
  return model.text();
}

std::optional<std::string> export_onnx(const Module& m, const ExportOptions& o, std::vector<ExternalData>* external,
                                       Diagnostics& d) {
  return Writer(m, o, external, d).model();
}

}  // namespace rlxc::onnx_export
