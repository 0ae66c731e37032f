#include "export/onnx/writer.h"

#include <algorithm>

#include "ir/dim_postfix.h"

namespace rlxc::onnx_export {
namespace {

constexpr uint64_t kLargest = uint64_t{1900} << 20;  // of a protobuf message: 2 GiB
constexpr int64_t kIrVersion = 10;

Message tensor(const TensorData& d, const std::string& name, bool embed) {
  Message t;  // dims 1, data_type 2, string_data 6, name 8, raw_data 9, external_data 13, data_location 14
  for (int64_t n : d.dims) t.integer(1, n);
  t.integer(2, onnx_dtype(d.dtype)).bytes(8, name);
  if (d.dtype == DType::String) {
    for (const std::string& s : d.strings) t.bytes(6, s);
    return t;
  }
  if (!embed && !d.file.empty()) {
    const auto entry = [&](std::string_view key, const std::string& value) {
      t.message(13, Message().bytes(1, key).bytes(2, value));
    };
    entry("location", d.file), entry("offset", std::to_string(d.offset)), entry("length", std::to_string(d.size_bytes()));
    return std::move(t.integer(14, 1));
  }
  const std::string_view bytes(reinterpret_cast<const char*>(d.bytes.data()), d.bytes.size());
  if (!d.splat) return std::move(t.bytes(9, bytes));
  std::string all;
  const int64_t count = d.elements();
  all.reserve(static_cast<size_t>(count) * bytes.size());
  for (int64_t i = 0; i < count; ++i) all += bytes;
  return std::move(t.bytes(9, all));
}

}  // namespace

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

const RuleEntry* find_rule(OpKind op) {
  static const auto table = [] {
    std::vector<const RuleEntry*> rules(kOpCount);
    for (std::span<const RuleEntry> entries : {elementwise_rules(), movement_rules(), nn_rules()})
      for (const RuleEntry& e : entries) rules[static_cast<size_t>(e.op)] = &e;
    return rules;
  }();
  return table[static_cast<size_t>(op)];
}

bool has_operator(OpKind op) { return has_trait(op, kLeaf | kTerminator) || find_rule(op) != nullptr; }
bool is_exportable(const Graph& g, NodeId n) {
  if (has_trait(g.op(n), kLeaf | kTerminator)) return true;
  const RuleEntry* rule = find_rule(g.op(n));
  return rule && (!rule->fits || rule->fits(g, n));
}

std::string Writer::fresh(std::string_view stem) {
  std::string name(stem.empty() ? "v" : stem);
  if (used_.insert(name).second) return name;
  size_t& count = counters_[name];
  for (;;) {
    std::string numbered = name + "_" + std::to_string(++count);
    if (used_.insert(numbered).second) return numbered;
  }
}

std::string Writer::name_of(const Graph& g, ValueId v) {
  if (!v.valid()) return {};
  auto& names = top().names;
  if (const auto at = names.find(v.raw); at != names.end()) return at->second;
  // Names of values on the way depend on the order alone, so that a model that is written again stays the same.
  const bool is_named = has_trait(g.op(g.def(v)), kLeaf) && g.value_name(v).valid();
  return names[v.raw] = fresh(is_named ? module_.text(g.value_name(v)) : std::string_view());
}
void Writer::set_name(const Graph&, ValueId v, std::string name) { top().names[v.raw] = std::move(name); }

void Writer::node_of(std::string_view op, const Names& in, const Attributes& a, const Names& results) {
  Message n;  // input 1, output 2, name 3, op_type 4, attribute 5
  for (const std::string& s : in) n.bytes(1, s);
  for (const std::string& s : results) n.bytes(2, s);
  if (!node_name_.empty()) n.bytes(3, node_name_);
  n.bytes(4, op);
  for (const Message& each : a.all()) n.message(5, each);
  top().nodes.push_back(std::move(n));
}
std::string Writer::node(std::string_view op, const Names& in, const Attributes& a, std::string result) {
  if (result.empty()) result = fresh("v");
  node_of(op, in, a, {result});
  return result;
}

std::string Writer::constant(const TensorData& d, std::string_view stem) {
  std::string key = std::string(name(d.dtype));
  const bool small = !d.splat && d.size_bytes() <= 256 && d.dtype != DType::String;
  if (small) {
    for (int64_t n : d.dims) key += "," + std::to_string(n);
    key += ":" + std::string(reinterpret_cast<const char*>(d.bytes.data()), d.bytes.size());
    if (const auto at = constants_.find(key); at != constants_.end()) return at->second;
  }
  const std::string made = fresh(stem);
  scopes_.front().initializers.push_back(tensor(d, made, options_.embed));
  if (small) constants_[key] = made;
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
  for (size_t axis = 0; axis < g.dims(v).size(); ++axis)
    if (const auto symbol = symbol_name(module_.dims, g.dims(v)[axis])) {
      auto& places = symbols_[*symbol];
      if (places.empty()) places.push_back({name_of(g, v), static_cast<int64_t>(axis), scopes_.size()});
    }
}

std::string Writer::vector_of(Dim d) {
  if (const auto v = module_.dims.constant_value(d)) return ints({*v});
  const std::string text = module_.dims.text(d);
  for (const Scope& s : scopes_)
    if (const auto at = s.computed.find(text); at != s.computed.end()) return at->second;
  std::vector<std::string> stack;
  for (const std::string& word : dim_postfix(module_.dims, d)) {
    if (word.starts_with('$')) {
      const auto at = symbols_.find(word.substr(1));
      if (at == symbols_.end() || at->second.empty()) {
        diagnostics_.error(Code::UnboundDim, "the size " + ForeignText(word.substr(1)).quoted() + " is that of no input", {},
                           "--bind gives it a value");
        return ints({1});
      }
      const Place& p = at->second.front();
      stack.push_back(node("Shape", {p.value}, Attributes().integer("start", p.axis).integer("end", p.axis + 1)));
      continue;
    }
    const bool is_number = word[0] == '-' ? word.size() > 1 : (word[0] >= '0' && word[0] <= '9');
    if (is_number) {
      stack.push_back(ints({std::stoll(word)}));
      continue;
    }
    const std::string b = std::move(stack.back());
    stack.pop_back();
    const std::string a = std::move(stack.back());
    stack.pop_back();
    if (word == "+") stack.push_back(node("Add", {a, b}));
    else if (word == "*") stack.push_back(node("Mul", {a, b}));
    else if (word == "mod") stack.push_back(node("Mod", {a, b}));
    else if (word == "min") stack.push_back(node("Min", {a, b}));
    else if (word == "max") stack.push_back(node("Max", {a, b}));
    else stack.push_back(node("Div", {node("Sub", {a, node("Mod", {a, b})}), b}));  // rounded down
  }
  return top().computed[text] = stack.back();
}

std::string Writer::sizes(std::span<const Dim> all) {
  std::vector<int64_t> known;
  for (Dim d : all)
    if (const auto v = module_.dims.constant_value(d)) known.push_back(*v);
  if (known.size() == all.size()) return ints(known);
  Names parts;
  for (Dim d : all) parts.push_back(vector_of(d));
  return parts.size() == 1 ? parts[0] : node("Concat", parts, Attributes().integer("axis", 0));
}
std::string Writer::size(Dim d) {
  if (const auto v = module_.dims.constant_value(d)) return constant(make_data(DType::I64, {}, std::vector<int64_t>{*v}), "c");
  return node("Squeeze", {vector_of(d), ints({0})});
}

Message Writer::value_info(const Graph& g, ValueId v, const std::string& name) {
  const Type& t = g.type(v);
  Message shape;  // dim 1: dim_value 1, dim_param 2
  for (Dim d : t.dims) {
    Message dim;
    if (const auto value = module_.dims.constant_value(d)) dim.integer(1, *value);
    else if (const auto symbol = symbol_name(module_.dims, d)) dim.bytes(2, *symbol);
    shape.message(1, dim);
  }
  Message tensor_type;
  tensor_type.integer(1, onnx_dtype(t.dtype));
  if (t.ranked) tensor_type.message(2, shape);
  return std::move(Message().bytes(1, name).message(2, Message().message(1, tensor_type)));
}

void Writer::graph_nodes(const Graph& g) {
  for (NodeId n : g.nodes()) {
    const OpKind op = g.op(n);
    if (op == OpKind::Input) continue;
    if (op == OpKind::Param || op == OpKind::Constant) {
      const DataId data = g.attrs<DataAttrs>(n).data;
      const ValueId v = g.result(n);
      if (!data.valid() || (module_.data[data].bytes.empty() && module_.data[data].elements() > 0 &&
                            module_.data[data].dtype != DType::String && (options_.embed || module_.data[data].file.empty()))) {
        diagnostics_.error(Code::MissingWeights, "the contents of " + g.label(n).quoted() + " are not known");
        continue;
      }
      if (op == OpKind::Constant && !g.value_name(v).valid()) set_name(g, v, constant(module_.data[data], "c"));
      else scopes_.front().initializers.push_back(tensor(module_.data[data], name_of(g, v), options_.embed));
      continue;
    }
    node_name_ = g.node_name(n).valid() ? module_.text(g.node_name(n)) : std::string_view();
    const RuleEntry* rule = find_rule(op);
    if (!rule || (rule->fits && !rule->fits(g, n)) || !rule->write(Site{*this, g, n})) {
      diagnostics_.error(Code::UnsupportedOp, g.label(n).quoted() + " (" + std::string(name(op)) + ") has no ONNX operator", {},
                         "of opset " + std::to_string(kOpset));
      continue;
    }
    for (size_t r = 0; r < g.result_count(n); ++r) note_sizes(g, g.result(n, r));
  }
  node_name_ = {};
}

// Each output has a name of its own, which no other value has.
void Writer::outputs(const Graph& g, Message* to) {
  for (size_t i = 0; i < g.outputs().size(); ++i) {
    const ValueId v = g.outputs()[i];
    std::string name = name_of(g, v);
    const std::string_view own = g.output_name(i).valid() ? module_.text(g.output_name(i)) : std::string_view();
    const bool is_main = scopes_.size() == 1;
    if (!is_main || name != own) {
      const std::string result = is_main && !own.empty() ? std::string(own) : fresh("out");
      name = node("Identity", {name}, {}, result);
    }
    to->message(12, value_info(g, v, name));
  }
}

Message Writer::body(GraphId id, std::span<const std::string> outer, size_t first_input, size_t last_input) {
  const Graph& g = module_.graph(id);
  const std::string_view owner = node_name_;
  scopes_.emplace_back();
  top().graph = &g;
  Message out;  // node 1, name 2, input 11, output 12
  out.bytes(2, fresh(g.name()));
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
  for (auto& [symbol, places] : symbols_) std::erase_if(places, [&](const Place& p) { return p.depth >= depth; });
  scopes_.pop_back();
  node_name_ = owner;
  return out;
}

std::optional<std::string> Writer::model() {
  const Graph& g = module_.main();
  const size_t errors = diagnostics_.errors();
  scopes_.emplace_back();
  top().graph = &g;
  Message graph;  // node 1, name 2, initializer 5, input 11, output 12
  graph.bytes(2, module_.name.bytes().empty() ? "main" : module_.name.bytes());
  for (NodeId n : g.inputs()) {
    graph.message(11, value_info(g, g.result(n), name_of(g, g.result(n))));
    note_sizes(g, g.result(n));
  }
  for (size_t i = 0; i < g.outputs().size(); ++i) {  // values that are an output have its name
    const ValueId v = g.outputs()[i];
    const Symbol own = g.output_name(i);
    if (!own.valid() || has_trait(g.op(g.def(v)), kLeaf) || top().names.contains(v.raw)) {
      if (own.valid()) used_.insert(std::string(module_.text(own)));
    } else if (used_.insert(std::string(module_.text(own))).second) {
      set_name(g, v, std::string(module_.text(own)));
    }
  }
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
  Message model;  // ir_version 1, producer_name 2, producer_version 3, graph 7, opset_import 8
  model.integer(1, kIrVersion).bytes(2, "rlxc").bytes(3, options_.producer_version);
  model.message(7, graph).message(8, Message().bytes(1, "").integer(2, kOpset));
  return model.text();
}

std::optional<std::string> export_onnx(const Module& m, const ExportOptions& o, Diagnostics& d) {
  return Writer(m, o, d).model();
}

}  // namespace rlxc::onnx_export
