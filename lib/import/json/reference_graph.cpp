// The graph format of the reference tools: a flat list of nodes with externally tagged ops, shapes as {"dims": [{"Static": 4},
// {"Dynamic": 0}], "dtype": "F32"}, inline subgraphs.
#include "import/json/reference.h"
#include "support/text.h"

namespace rlxc::import_json {
namespace {

constexpr std::string_view kPredefined[] = {"batch", "seq", "rows", "past_seq"};

class ReferenceGraph {
 public:
  ReferenceGraph(Document& d, const std::vector<std::string>& output_names, Graph& g, size_t base, size_t depth)
      : doc_(d), output_names_(output_names), graph_(g), builder_(g, nullptr), base_(base), depth_(depth) {}

  // Binds the inputs to these values. Outputs go to `results` instead of becoming graph outputs.
  void bind(const BoundInputs& inputs) { bound_ = &inputs; }
  std::vector<ValueId> results;

  // Reads a member of the graph object after its key.
  bool member(JsonReader& r, std::string_view key) {
    if (key == "nodes") {
      for (r.begin_array(); r.next_item();)
        if (!doc_.count_node() || !node(r)) break;
      return r.ok();
    }
    if (key == "outputs") {
      outputs_at_ = base_ + r.at();
      for (r.begin_array(); r.next_item();) r.integer(&outputs_.emplace_back());
      return r.ok();
    }
    if (key == "fusion_policy") return doc_.module.stage = Stage::Hir, r.skip();
    return r.skip();
  }

  void finish() {
    for (size_t i = 0; i < outputs_.size(); ++i) {
      const auto it = values_.find(outputs_[i]);
      if (it == values_.end())
        doc_.error(Code::UnknownName,
                   "output " + std::to_string(i) + " is node " + std::to_string(outputs_[i]) + ", which does not exist",
                   outputs_at_);
      else if (bound_) results.push_back(it->second.value);
      else if (!it->second.bad)
        graph_.add_output(it->second.value,
                          depth_ == 0 && i < output_names_.size() ? doc_.module.symbol(output_names_[i]) : Symbol());
    }
  }

  bool read(JsonReader& r) {
    r.begin_object();
    for (std::string_view key; r.next_key(&key);) member(r, key);
    if (r.ok()) finish();
    return r.ok();
  }

 private:
  bool node(JsonReader& r) {
    ReferenceNode n(doc_, builder_);
    n.at = base_ + r.at();
    n.depth = depth_;
    int64_t id = -1;
    std::vector<int64_t> inputs;
    std::string label;
    bool has_shape = false;
    r.begin_object();
    for (std::string_view key; r.next_key(&key);) {
      if (key == "id") r.integer(&id);
      else if (key == "inputs")
        for (r.begin_array(); r.next_item();) r.integer(&inputs.emplace_back());
      else if (key == "op") operation(r, n);
      else if (key == "shape") has_shape = shape(r, &n.type);
      else if (key == "name") r.peek() == JsonReader::Kind::Null ? r.null() : r.string(&n.name);
      else if (key == "origin") origin(r, &label);
      else r.skip();
    }
    if (!r.ok()) return false;
    if (id < 0) return doc_.error(Code::BadJson, "a node needs an \"id\"", n.at), true;
    if (values_.contains(id)) return doc_.error(Code::DuplicateName, "two nodes have the id " + std::to_string(id), n.at), true;
    if (n.name.empty()) n.name = label;
    ValueSlot& slot = values_.emplace(id, ValueSlot{ValueId(), true}).first->second;
    if (n.op.empty()) return n.fail(Code::BadJson, "a node needs an \"op\""), true;
    const ReferenceHandler handler = find_reference_op(n.op);
    if (!handler) return n.fail(Code::UnsupportedOp, "the operation is unknown"), true;
    if (!has_shape) return n.fail(Code::BadJson, "a node needs a \"shape\" with \"dims\" and \"dtype\""), true;
    for (int64_t i : inputs) {
      const auto it = values_.find(i);
      if (it == values_.end() || i == id)
        return n.fail(Code::UnknownName, "reads node " + std::to_string(i) + ", which is not before it"), true;
      if (it->second.bad) return true;
      n.in.push_back(it->second.value);
    }
    if (is_reference_block(n.op)) doc_.module.stage = Stage::Hir;
    builder_.set_node_name(n.name.empty() ? Symbol() : doc_.module.symbol(n.name));
    const ValueId made = bound_ && n.op == "Input" ? bound_input(n) : handler(n);
    builder_.set_node_name({});
    if (!n.good) return true;
    if (!made.valid()) return n.fail(Code::BadShape, builder_.error().empty() ? "cannot be made" : builder_.error()), true;
    if (!agree(n, made)) return true;
    slot = {made, false};
    return true;
  }

  ValueId bound_input(ReferenceNode& n) {
    const std::string name = n.word("name");
    for (const auto& [key, value] : bound_->by_name)
      if (key == name) return value;
    if (next_input_ < bound_->in_order.size()) return bound_->in_order[next_input_++];
    return n.fail(Code::BadArity, "the body has more inputs than it is given"), ValueId();
  }

  // Checks the declared shape against the inferred one. Records symbolically different dims as equal.
  bool agree(ReferenceNode& n, ValueId v) {
    const Type& made = graph_.type(v);
    DimTable& dims = doc_.module.dims;
    bool same = made.dtype == n.type.dtype && made.rank() == n.type.rank();
    for (size_t i = 0; same && i < made.dims.size(); ++i)
      same = dims.equal(made.dims[i], n.type.dims[i]) || dims.assume_equal(made.dims[i], n.type.dims[i]);
    return same || n.fail(Code::BadShape, "declared " + text(n.type, dims) + ", inferred " + text(made, dims));
  }

  void operation(JsonReader& r, ReferenceNode& n) {
    if (r.peek() == JsonReader::Kind::String) return void(r.string(&n.op));
    r.begin_object();
    std::string_view key;
    if (!r.next_key(&key)) return void(r.ok() && r.fail("an operation is a name or an object with one member"));
    n.op = key;
    if (n.op == "Mir") {  // a MIR op within the HIR
      operation(r, n);
    } else {
      r.peek();
      n.payload_at = base_ + r.at();
      r.raw(&n.payload);
      JsonReader inner(n.payload);
      if (inner.peek() == JsonReader::Kind::Object) {
        inner.begin_object();
        for (std::string_view name; inner.next_key(&name);) {
          inner.peek();
          Field f{std::string(name), {}, n.payload_at + inner.at()};
          inner.raw(&f.value);
          n.fields.push_back(std::move(f));
        }
      }
    }
    if (r.ok() && r.next_key(&key)) r.fail("an operation is a name or an object with one member");
  }

  bool shape(JsonReader& r, Type* type) {
    bool has_dims = false, has_dtype = false;
    r.begin_object();
    for (std::string_view key; r.next_key(&key);) {
      if (key == "dtype") {
        std::string_view s;
        const size_t at = r.at();
        if (!r.string(&s)) return false;
        const auto t = dtype_from_name(s);
        if (!t) return r.fail("\"" + std::string(s) + "\" is no element type", at);
        type->dtype = *t, has_dtype = true;
      } else if (key == "dims") {
        has_dims = true;
        for (r.begin_array(); r.next_item();) dim(r, &type->dims.emplace_back());
      } else {
        r.skip();
      }
    }
    return r.ok() && has_dims && has_dtype;
  }

  void dim(JsonReader& r, Dim* out) {
    std::string_view key;
    int64_t n = 0;
    const size_t at = r.at();
    if (!r.begin_object() || !r.next_key(&key))
      return void(r.ok() && r.fail("a size is {\"Static\": n} or {\"Dynamic\": symbol}", at));
    const bool is_static = key == "Static";
    if (!is_static && key != "Dynamic") return void(r.fail("a size is {\"Static\": n} or {\"Dynamic\": symbol}", at));
    if (!r.integer(&n)) return;
    if (n < 0) return void(r.fail("a size is negative", at));
    *out = is_static ? Dim(n) : doc_.module.dims.symbol(symbol(n));
    if (r.next_key(&key)) r.fail("a size has one member", at);
  }
  std::string symbol(int64_t n) const {
    if (const auto it = doc_.symbol_names.find(n); it != doc_.symbol_names.end()) return it->second;
    return n < 4 ? std::string(kPredefined[n]) : "s" + std::to_string(n);
  }

  void origin(JsonReader& r, std::string* label) {
    if (r.peek() == JsonReader::Kind::Null) return void(r.null());
    r.begin_object();
    for (std::string_view key; r.next_key(&key);) {
      if (key == "label" && r.peek() == JsonReader::Kind::String) r.string(label);
      else r.skip();
    }
  }

  Document& doc_;
  const std::vector<std::string>& output_names_;
  Graph& graph_;
  Builder builder_;
  size_t base_, depth_;
  const BoundInputs* bound_ = nullptr;
  size_t next_input_ = 0;
  std::unordered_map<int64_t, ValueSlot> values_;  // by node id
  std::vector<int64_t> outputs_;
  size_t outputs_at_ = 0;
};

// Reads the names of symbols and outputs, before the nodes are read.
std::vector<std::string> find_names(Document& d) {
  std::vector<std::string> outputs;
  JsonReader r(d.text);
  r.begin_object();
  for (std::string_view key; r.next_key(&key);) {
    if (key == "symbols" && r.peek() == JsonReader::Kind::Object) {
      r.begin_object();
      for (std::string_view id; r.next_key(&id);) {
        int64_t n = 0;
        const std::string digits(id);
        if (JsonReader(digits).integer(&n)) r.string(&d.symbol_names[n]);
        else r.skip();
      }
    } else if (key == "output_names" && r.peek() == JsonReader::Kind::Array) {
      for (r.begin_array(); r.next_item();) r.string(&outputs.emplace_back());
    } else {
      r.skip();
    }
  }
  return outputs;
}

}  // namespace

bool ReferenceNode::fail(Code code, std::string message) {
  good = false;
  return doc.error(code, std::move(message), at, quote(name.empty() ? op : name) + " (" + op + ")");
}

GraphId read_reference_body(ReferenceNode& n, const Field& field, std::string name) {
  if (n.depth + 1 > n.doc.options.max_depth) return n.fail(Code::TooLarge, "bodies are nested too deep"), GraphId();
  const GraphId id = n.doc.module.make_graph(std::move(name));
  JsonReader r(field.value);
  static const std::vector<std::string> kUnnamed;
  ReferenceGraph body(n.doc, kUnnamed, n.doc.module.graph(id), field.at, n.depth + 1);
  if (!body.read(r)) return n.fail(Code::BadJson, r.error() + " (" + n.doc.lines.place(field.at + r.error_at()) + ")"), GraphId();
  return id;
}

std::vector<ValueId> read_reference_inline(ReferenceNode& n, std::string_view field_name, Builder& b, const BoundInputs& inputs) {
  const Field* field = n.find(field_name);
  if (!field) return n.fail(Code::BadGraph, "\"" + std::string(field_name) + "\" is missing"), std::vector<ValueId>();
  if (n.depth + 1 > n.doc.options.max_depth) return n.fail(Code::TooLarge, "bodies are nested too deep"), std::vector<ValueId>();
  const size_t errors = n.doc.diagnostics.errors();
  JsonReader r(field->value);
  static const std::vector<std::string> kUnnamed;
  ReferenceGraph body(n.doc, kUnnamed, b.graph(), field->at, n.depth + 1);
  body.bind(inputs);
  if (!body.read(r)) n.fail(Code::BadJson, r.error() + " (" + n.doc.lines.place(field->at + r.error_at()) + ")");
  if (n.doc.diagnostics.errors() != errors) return n.good = false, std::vector<ValueId>();
  return std::move(body.results);
}

bool read_reference_graph(Document& d, std::string_view first_key) {
  const std::vector<std::string> names = find_names(d);
  JsonReader& r = d.reader;
  ReferenceGraph graph(d, names, d.module.main(), 0, 0);
  // {"mir": {"inner": graph}} and {"inner": graph} wrap the graph.
  const auto member = [&](std::string_view key, auto& self) -> void {
    if (key == "mir") {
      r.begin_object();
      for (std::string_view k; r.next_key(&k);) self(k, self);
    } else if (key == "inner") {
      r.begin_object();
      for (std::string_view k; r.next_key(&k);) k == "name" ? r.string(&d.module.name) : graph.member(r, k);
    } else if (key == "name") {
      r.string(&d.module.name);
    } else {
      graph.member(r, key);
    }
  };
  std::string_view key = first_key;
  do member(key, member);
  while (r.ok() && r.next_key(&key));
  if (!r.ok()) return false;
  graph.finish();
  return true;
}

}  // namespace rlxc::import_json
