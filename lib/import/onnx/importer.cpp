#include "import/onnx/importer.h"

#include <algorithm>

#include "ir/custom_op.h"
#include "support/heap.h"
#include "support/progress.h"
#include "support/text.h"

namespace rlxc::onnx_import {
namespace {

// Rejects names that are not UTF-8: artefacts cannot represent them, and lossy names could collide.
void refuse_unless_utf8(std::string_view name, Diagnostics& d) {
  for (std::string_view rest = name;;) {
    rest.remove_prefix(plain_prefix(rest));
    if (rest.empty()) return;
    const int step = utf8_step(rest);
    if (step < 0) return d.error(Code::BadGraph, "the name " + quote(name) + " is not UTF-8");
    rest.remove_prefix(static_cast<size_t>(step));
  }
}

constexpr int64_t kNewestOpset = 28;
constexpr size_t kBytesPerNode = 256;  // that a node takes at least, with its values and names

// Returns whether the domains are equal. "" and "ai.onnx" are the same domain.
bool same_domain(std::string_view a, std::string_view b) {
  const auto spelled = [](std::string_view s) { return s == "ai.onnx" ? std::string_view() : s; };
  return spelled(a) == spelled(b);
}

// Nodes use the highest declared version of a domain.
int64_t version_of(const std::vector<OpsetView>& opsets, std::string_view domain) {
  int64_t version = 0;
  for (const OpsetView& o : opsets)
    if (same_domain(o.domain, domain)) version = std::max(version, o.version);
  return version;
}

void warn_of_repeated_domains(const std::vector<OpsetView>& opsets, Diagnostics& d) {
  std::map<std::string_view, std::pair<int64_t, int64_t>> versions;  // lowest and highest per domain
  for (const OpsetView& o : opsets) {
    const auto [it, is_new] = versions.try_emplace(o.domain.empty() ? "ai.onnx" : o.domain, o.version, o.version);
    auto& [low, high] = it->second;
    low = std::min(low, o.version);
    high = std::max(high, o.version);
  }
  for (const auto& [domain, range] : versions)
    if (range.first != range.second)
      d.warning(Code::BadGraph, "the model imports several opsets of " + quote(domain) + ": its nodes are those of opset " +
                                    std::to_string(range.second));
}

// Returns the values that a node reads in addition to its inputs.
std::vector<std::string_view> names_in_attributes(const NodeView& node) {
  std::vector<std::string_view> names;
  if (node.op_type != "Gradient") return names;
  for (const AttributeView& a : node.attributes) {
    const auto list = a.strings();
    names.insert(names.end(), list.begin(), list.end());
    if (a.name == "y") names.push_back(a.s);
  }
  return names;
}

std::string function_key(std::string_view domain, std::string_view name, std::string_view overload) {
  return std::string(domain) + '\0' + std::string(name) + '\0' + std::string(overload);
}

}  // namespace

Importer::Importer(Module& m, TensorSource& source, const ModelView& model, const ImportOptions& options, Diagnostics& d)
    : module_(m), source_(source), model_(model), options_(options), diagnostics_(d), bound_(options.bind) {}

int64_t Importer::opset(std::string_view domain) const {
  if (domain.empty() || domain == "ai.onnx") return scopes_.back().opset;
  return version_of(*scopes_.back().opsets, domain);
}

bool Importer::run() {
  warn_of_repeated_domains(model_.opsets, diagnostics_);
  for (const OpsetView& o : model_.opsets)
    if (o.domain.empty() || o.domain == "ai.onnx") {
      if (o.version < 1) {
        diagnostics_.error(Code::UnsupportedOp, "the model uses opset " + std::to_string(o.version) + " of ai.onnx");
        return false;
      }
      if (o.version > kNewestOpset)
        diagnostics_.warning(Code::UnsupportedOp, "the model uses opset " + std::to_string(o.version) +
                                                      " of ai.onnx, which is read as " + std::to_string(kNewestOpset) +
                                                      ", the newest that is known");
    }
  for (const FunctionView& f : model_.functions)
    if (!functions_.emplace(function_key(f.domain, f.name, f.overload), &f).second)
      diagnostics_.error(Code::DuplicateName, "the function " + quote(f.name) + " is defined twice");
  frames_.push_back(std::make_unique<Frame>(module_.main(), &local_));
  if (!enter(0, true, {}, model_.opsets)) return false;
  GraphInfo info;
  if (!read_graph(model_.graph, &info)) return false;
  module_.name = ForeignText(info.name.empty() ? "main" : info.name);
  module_.devices.all = model_.configurations;
  for (const DeviceConfiguration& c : module_.devices.all) {
    refuse_unless_utf8(c.name, diagnostics_);
    for (const std::string& name : c.device_names) refuse_unless_utf8(name, diagnostics_);
  }
  const size_t nodes = std::min(info.nodes, options_.max_nodes);
  populate_heap(kBytesPerNode * nodes);
  module_.main().reserve(nodes);
  vals_.reserve(vals_.size() + nodes);
  find_plain_dims(info);
  main_inputs(info);
  assume_equal_sizes();
  import_nodes(model_.graph, 1);
  main_outputs(info);
  check_bindings();
  leave();
  refuse_unless_utf8(module_.name.bytes(), diagnostics_);
  for (size_t i = 0; i < module_.strings.size(); ++i) refuse_unless_utf8(module_.bytes(Symbol(i)), diagnostics_);
  for (const auto& [name, index] : model_dims_) refuse_unless_utf8(name, diagnostics_);
  return diagnostics_.ok();
}

std::string Importer::where(const NodeView& n) const {
  std::string name(n.name);
  if (name.empty() && !n.outputs.empty()) name = n.outputs[0];
  std::string out = "node " + quote(scopes_.back().prefix + name) + " (";
  if (!n.domain.empty()) out += std::string(n.domain) + ".";
  return out + std::string(n.op_type) + ", opset " + std::to_string(opset(n.domain)) + ")";
}

// Scopes and names.

bool Importer::enter(uint16_t frame, bool isolated, std::string prefix, const std::vector<OpsetView>& opsets) {
  if (scopes_.size() > static_cast<size_t>(options_.max_depth)) {
    too_much("sub-graphs and functions are nested deeper than " + std::to_string(options_.max_depth), {}, {});
    return false;
  }
  Scope s;
  s.frame = frame;
  s.floor = isolated || scopes_.empty() ? static_cast<uint32_t>(scopes_.size() + 1) : scopes_.back().floor;
  s.prefix = std::move(prefix);
  s.opsets = &opsets;
  s.opset = std::max<int64_t>(version_of(opsets, ""), 1);
  s.first_undo = undo_.size();
  scopes_.push_back(std::move(s));
  if (work_.size() < scopes_.size() + 1) work_.resize(scopes_.size() + 1);
  return true;
}

void Importer::leave() {
  while (undo_.size() > scopes_.back().first_undo) {
    bindings_[undo_.back().first.raw] = undo_.back().second;
    undo_.pop_back();
  }
  scopes_.pop_back();
}

std::string Importer::node_text(const NodeView& node) const {
  return scopes_.back().prefix +
         (node.name.empty() ? std::string(node.op_type) + "_" + std::to_string(nodes_ - 1) : std::string(node.name));
}

Symbol Importer::node_name(const NodeView& node) {
  if (scopes_.back().prefix.empty() && !node.name.empty()) return module_.strings.append(node.name);
  return module_.strings.append(node_text(node));
}

Symbol Importer::symbol(std::string_view name) {
  const Scope& s = scopes_.back();
  return module_.symbol(s.prefix.empty() ? name : std::string_view(s.prefix + std::string(name)));
}

ValId Importer::lookup(Symbol s) {
  if (s.raw >= bindings_.size()) return {};
  const Binding b = bindings_[s.raw];
  if (b.depth < scopes_.back().floor) return {};
  const uint16_t from = vals_[b.val.raw].frame, to = scopes_.back().frame;
  if (from >= to) return b.val;
  const ValId inner = capture(b.val, from, to);
  vals_[inner.raw].name = vals_[inner.raw].name.valid() ? vals_[inner.raw].name : s;
  undo_.emplace_back(s, b);  // later uses in this scope find the same capture
  bindings_[s.raw] = {static_cast<uint32_t>(scopes_.size()), inner};
  return inner;
}

bool Importer::bind(Symbol s, ValId v) {
  if (s.raw >= bindings_.size()) bindings_.resize(std::max<size_t>(s.raw + 1, bindings_.size() * 2));
  Binding& b = bindings_[s.raw];
  const auto depth = static_cast<uint32_t>(scopes_.size());
  if (b.depth == depth) return false;
  if (depth > 1) undo_.emplace_back(s, b);
  b = {depth, v};
  Val& val = vals_[v.raw];
  if (!val.name.valid()) {
    val.name = s;
    Graph& g = *frames_[val.frame]->graph;
    if (val.id.valid() && !g.value_name(val.id).valid()) g.set_value_name(val.id, s);
  }
  return true;
}

// Nodes. ONNX requires topological order; a node that precedes its producer waits for the first missing name.

bool Importer::import_nodes(Bytes container, uint32_t node_field) {
  const size_t errors = diagnostics_.errors();
  std::unordered_map<uint32_t, std::vector<Bytes>> waiting;
  std::vector<Bytes> ready;
  size_t waiting_nodes = 0;
  WireReader r(container);
  while (r.next() && !over_limit_) {
    if (r.tag() != bytes_field(node_field)) continue;
    ready.assign(1, r.bytes());
    while (!ready.empty() && !over_limit_) {
      const Bytes node = ready.back();
      ready.pop_back();
      Symbol missing;
      if (!import_node(node, &missing)) {
        waiting[missing.raw].push_back(node);
        ++waiting_nodes;
      } else if (waiting_nodes > 0) {
        for (Symbol s : work_[scopes_.size()].outputs) {
          const auto it = s.valid() ? waiting.find(s.raw) : waiting.end();
          if (it == waiting.end()) continue;
          waiting_nodes -= it->second.size();
          ready.insert(ready.end(), it->second.rbegin(), it->second.rend());
          waiting.erase(it);
        }
      }
    }
  }
  if (!r.ok()) diagnostics_.error(Code::NotAModel, "the list of nodes is cut short or malformed");
  if (waiting_nodes > 0 && !over_limit_) {
    std::unordered_set<uint32_t> pending;
    std::vector<std::pair<uint32_t, Bytes>> stuck;
    for (const auto& [name, nodes] : waiting)
      for (Bytes b : nodes) stuck.emplace_back(name, b);
    std::ranges::sort(stuck, {}, [](const auto& s) { return s.second.data(); });
    NodeView view;
    for (const auto& [name, b] : stuck) {
      read_node(b, &view);
      for (std::string_view o : view.outputs) pending.insert(symbol(o).raw);
    }
    for (const auto& [name, b] : stuck) {
      read_node(b, &view);
      const std::string text = module_.text(Symbol(name)).quoted();
      if (pending.contains(name))
        diagnostics_.error(Code::BadGraph, "reads " + text + ", which depends on this node or on another one in error (a cycle)",
                           where(view));
      else diagnostics_.error(Code::UnknownName, "reads " + text + ", which no node, input or initializer defines", where(view));
    }
  }
  return diagnostics_.errors() == errors;
}

// Returns false if the node must wait for `missing`.
bool Importer::import_node(Bytes b, Symbol* missing) {
  NodeWork& work = work_[scopes_.size()];
  if (!read_node(b, &work.view)) {
    work.outputs.clear();
    diagnostics_.error(Code::NotAModel, "a node is cut short or malformed");
    return true;
  }
  note_node(work.view.name);
  if (!calls_.empty()) substitute_references(work.view);
  if (!resolve_names(work, missing)) return false;
  if (++nodes_ > options_.max_nodes) {
    too_much("the model has more than " + std::to_string(options_.max_nodes) + " nodes", where(work.view),
             "--max-nodes N allows more");
    return true;
  }
  if (!work.view.devices.empty()) keep_devices(work.view);
  if (valid_attributes(work.view)) dispatch(work);
  else finish_node(work, {});
  return true;
}

void Importer::keep_devices(const NodeView& node) {
  std::vector<NodeDevices> list;
  for (Bytes b : node.devices)
    if (!read_node_devices(b, &list.emplace_back()))
      return diagnostics_.error(Code::NotAModel, "a device configuration is cut short or malformed", where(node));
  for (NodeDevices& d : list) {
    if (std::ranges::find(model_.configurations, d.configuration, &DeviceConfiguration::name) == model_.configurations.end())
      diagnostics_.warning(Code::BadAttribute, "the model has no device configuration " + quote(d.configuration), where(node));
    refuse_unless_utf8(d.configuration, diagnostics_);
    for (TensorSharding& t : d.tensors) {
      t.tensor = scopes_.back().prefix + t.tensor;
      refuse_unless_utf8(t.tensor, diagnostics_);
      for (const ShardedAxis& a : t.axes)
        for (const ShardedAxis::Part& p : a.parts) refuse_unless_utf8(p.symbol, diagnostics_);
    }
  }
  if (!module_.devices.nodes.try_emplace(node_text(node), std::move(list)).second)
    diagnostics_.warning(Code::DuplicateName, "another node has the name: its device configurations are kept, these are not",
                         where(node));
}

bool Importer::valid_attributes(const NodeView& node) {
  if (const std::string_view name = node.repeated_attribute(); !name.empty()) {
    diagnostics_.error(Code::BadAttribute, "the attribute " + quote(name) + " is given twice", where(node));
    return false;
  }
  for (const AttributeView& a : node.attributes)
    if (!a.reference.empty() && calls_.empty()) {
      diagnostics_.error(Code::BadAttribute,
                         "the attribute " + quote(a.name) + " takes the value of " + quote(a.reference) +
                             " of a function, but the node is in no function",
                         where(node));
      return false;
    }
  return true;
}

bool Importer::resolve_names(NodeWork& work, Symbol* missing) {
  work.inputs.clear();
  work.outputs.clear();
  for (std::string_view name : names_in_attributes(work.view))
    if (!named(name).valid()) {
      *missing = symbol(name);
      return false;
    }
  for (std::string_view name : work.view.inputs) {
    if (name.empty()) {
      work.inputs.emplace_back();
      continue;
    }
    const Symbol s = symbol(name);
    const ValId v = lookup(s);
    if (!v.valid() && !(!absent_.empty() && absent_.back().contains(s.raw))) {
      *missing = s;
      return false;
    }
    work.inputs.push_back(v);
  }
  for (const AttributeView& a : work.view.attributes) {
    if (a.type != AttrType::Graph) continue;
    std::vector<std::string_view> names;
    size_t budget = options_.max_nodes;
    free_names(a.message, &names, 1, &budget);
    for (std::string_view name : names) {
      const Symbol s = symbol(name);
      if (!lookup(s).valid()) {
        *missing = s;
        return false;
      }
    }
  }
  for (std::string_view name : work.view.outputs) work.outputs.push_back(name.empty() ? Symbol() : symbol(name));
  return true;
}

// Returns the names that a body uses but does not define.
void Importer::free_names(Bytes graph, std::vector<std::string_view>* out, int depth, size_t* budget) {
  if (depth > options_.max_depth) return;
  std::unordered_set<std::string_view> defined;
  std::vector<std::string_view> used;
  WireReader r(graph);
  NodeView node;
  while (r.next() && *budget > 0) {
    if (r.tag() == bytes_field(5) || r.tag() == bytes_field(11) || r.tag() == bytes_field(15)) {
      TensorView tensor;
      ValueInfoView info;
      if (r.tag() == bytes_field(5) && read_tensor(r.bytes(), &tensor)) defined.insert(tensor.name);
      if (r.tag() == bytes_field(11) && read_value_info(r.bytes(), &info)) defined.insert(info.name);
      SparseTensorView sparse;
      if (r.tag() == bytes_field(15) && read_sparse_tensor(r.bytes(), &sparse) && read_tensor(sparse.values, &tensor))
        defined.insert(tensor.name);
    } else if (r.tag() == bytes_field(12)) {
      ValueInfoView info;
      if (read_value_info(r.bytes(), &info)) used.push_back(info.name);
    } else if (r.tag() == bytes_field(1) && read_node(r.bytes(), &node)) {
      --*budget;
      used.insert(used.end(), node.inputs.begin(), node.inputs.end());
      defined.insert(node.outputs.begin(), node.outputs.end());
      const std::vector<AttributeView> attributes = node.attributes;
      for (const AttributeView& a : attributes)
        if (a.type == AttrType::Graph) free_names(a.message, &used, depth + 1, budget);
    }
  }
  for (std::string_view name : used)
    if (!name.empty() && defined.insert(name).second) out->push_back(name);
}

// Functions of the model: inlines the body at the call.

void Importer::substitute_references(NodeView& node) {
  const Call& call = calls_.back();
  for (size_t i = 0; i < node.attributes.size();) {
    AttributeView& a = node.attributes[i];
    if (a.reference.empty()) {
      ++i;
      continue;
    }
    const AttributeView* given = call.node->attribute(a.reference);
    for (const AttributeView& d : call.function->defaults)
      if (!given && d.name == a.reference) given = &d;
    if (given) {
      const std::string_view name = a.name;
      a = *given;
      a.name = name;
      ++i;
    } else {
      node.attributes.erase(node.attributes.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
}

const FunctionView* Importer::find_function(const NodeView& node) const {
  const auto f = functions_.find(function_key(node.domain, node.op_type, node.overload));
  return f == functions_.end() ? nullptr : f->second;
}

void Importer::too_much(std::string message, std::string place, std::string help) {
  if (!over_limit_) diagnostics_.error(Code::TooLarge, std::move(message), std::move(place), std::move(help));
  over_limit_ = true;
}

void Importer::call_function(const FunctionView& f, NodeWork& work, const std::string& place) {
  for (const Call& c : calls_)
    if (c.function == &f) {
      diagnostics_.error(Code::BadGraph, "the function calls itself", place);
      return finish_node(work, {});
    }
  if (work.inputs.size() > f.inputs.size() || work.outputs.size() > f.outputs.size()) {
    diagnostics_.error(Code::BadArity, "the call has more inputs or outputs than the function", place);
    return finish_node(work, {});
  }
  if (calls_.empty()) {
    const uint64_t nodes = expanded_nodes(f);
    if (nodes > options_.max_expansion - expanded_) {
      too_much("the functions of the model expand to more than " + std::to_string(options_.max_expansion) + " nodes", place,
               "--max-nodes N allows more");
      return finish_node(work, {});
    }
    expanded_ += nodes;
  }
  const std::string prefix =
      scopes_.back().prefix +
      (work.view.name.empty() ? std::string(f.name) + "_" + std::to_string(nodes_ - 1) : std::string(work.view.name)) + "/";
  const std::vector<ValId> inputs = work.inputs;
  if (!enter(scopes_.back().frame, true, prefix, f.opsets.empty() ? model_.opsets : f.opsets)) return finish_node(work, {});
  calls_.push_back({&f, &work.view});
  for (size_t i = 0; i < f.inputs.size(); ++i)
    if (i < inputs.size() && inputs[i].valid()) bind(symbol(f.inputs[i]), inputs[i]);
  absent_.emplace_back();
  for (size_t i = 0; i < f.inputs.size(); ++i)
    if (i >= inputs.size() || !inputs[i].valid()) absent_.back().insert(symbol(f.inputs[i]).raw);
  import_nodes(f.body, 7);
  std::vector<ValId> results;
  for (size_t i = 0; i < work.outputs.size() && !over_limit_; ++i) {
    const ValId v = lookup(symbol(f.outputs[i]));
    if (!v.valid() && work.outputs[i].valid())
      diagnostics_.error(Code::UnknownName, "the function does not define its output " + quote(f.outputs[i]), place);
    results.push_back(v);
  }
  absent_.pop_back();
  calls_.pop_back();
  leave();
  finish_node(work, results);
}

}  // namespace rlxc::onnx_import
