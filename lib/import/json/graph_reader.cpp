// Reads schemas/graph.schema.json. Nodes are created as they are read; their constants are attached at the end.
#include <array>

#include "import/json/document.h"
#include "ir/infer.h"
#include "support/json_form.h"
#include "support/text.h"

namespace rlxc::import_json {
namespace {

constexpr size_t kFewestGraphBytes = 16;  // no graph is shorter: bounds the number of graphs before they are read
constexpr int64_t kAbsent = -1;

// Reads an attribute value. Lists are homogeneous.
bool read_attr_value(JsonReader& r, AttrValue* out) {
  const auto scalar = [&](AttrValue* v) {
    switch (r.peek()) {
      case JsonReader::Kind::Bool: return r.boolean(&v->emplace<bool>());
      case JsonReader::Kind::String: return r.string(&v->emplace<std::string>());
      default: break;
    }
    std::string_view digits;
    if (r.peek() != JsonReader::Kind::Number || !r.raw(&digits)) return r.fail("expected a number, a string or a boolean");
    JsonReader number(digits);
    return digits.find_first_of(".eE") == digits.npos ? number.integer(&v->emplace<int64_t>()) || r.fail(number.error())
                                                      : number.number(&v->emplace<double>()) || r.fail(number.error());
  };
  if (r.peek() != JsonReader::Kind::Array) return scalar(out);
  std::vector<int64_t> ints;
  std::vector<double> doubles;
  std::vector<std::string> strings;
  size_t count = 0;
  bool has_text = false, all_ints = true;
  for (r.begin_array(); r.next_item(); ++count) {
    AttrValue v;
    if (!scalar(&v)) return false;
    if (const auto* i = std::get_if<int64_t>(&v)) {
      ints.push_back(*i);
      doubles.push_back(static_cast<double>(*i));
      strings.push_back(std::to_string(*i));
    } else if (const auto* d = std::get_if<double>(&v)) {
      all_ints = false;
      doubles.push_back(*d);
    } else if (auto* s = std::get_if<std::string>(&v)) {
      has_text = true;
      strings.push_back(std::move(*s));
    } else return r.fail("lists hold numbers or strings");
  }
  if (!r.ok()) return false;
  if (has_text) *out = std::move(strings);
  else if (all_ints) *out = std::move(ints);
  else *out = std::move(doubles);
  return (has_text ? std::get<std::vector<std::string>>(*out).size() == count : true) ||
         r.fail("a list holds numbers or strings, not both");
}

class GraphReader {
 public:
  explicit GraphReader(Document& d) : doc_(d), r_(d.reader), module_(d.module), constants_(d) {}

  // Reads a member of the document after its key.
  bool member(std::string_view key) {
    if (key == "format") return format();
    if (key == "module" || key == "name") return r_.string(&module_.name);
    if (key == "stage") return stage();
    if (key == "symbols") return symbols();
    if (key == "named_sizes") return named_sizes();
    if (key == "equalities") return equalities();
    if (key == "devices") return read_json(r_, &module_.devices);
    if (key == "constants") {
      constants_.read_list();
      return r_.ok();
    }
    if (key == "graphs") return graphs();
    if (key == "io") return io();
    return r_.skip();
  }

  bool finish() {
    if (!has_format_) return doc_.error(Code::BadJson, "the document lacks \"format\": \"rlxc-graph\"", 0);
    if (graphs_read_ == 0) return doc_.error(Code::BadJson, "the document has no graph in \"graphs\"", 0);
    if (graphs_read_ < module_.graph_count())
      return doc_.error(
          Code::BadJson,
          "a node refers to graph " + std::to_string(module_.graph_count() - 1) + ", there are " + std::to_string(graphs_read_),
          0);
    for (const PendingData& p : data_) constants_.attach(module_.graph(p.graph), p.node, p.id, p.at);
    for (const auto& [a, b, at] : equal_)
      if (!module_.dims.assume_equal(a, b)) doc_.error(Code::BadShape, "two sizes that must be equal cannot be", at);
    for (size_t i = 0; i < output_names_.size() && i < module_.main().outputs().size(); ++i)
      if (!output_names_[i].empty() && !module_.main().output_name(i).valid())
        module_.main().set_output_name(i, module_.symbol(output_names_[i]));
    if (!check_nesting()) return false;
    for (size_t i = 0; i < module_.graph_count(); ++i) module_.graph(GraphId(i)).compact();  // ids are numbered from 0
    return true;
  }

 private:
  struct PendingData {
    GraphId graph;
    NodeId node;
    int64_t id;
    size_t at;
  };
  struct Result {
    int64_t id = kAbsent;
    TypeId type;
    std::string name;
  };
  // Reused from node to node to reuse its memory.
  struct NodeText {
    std::string op, name;
    std::string_view attrs;
    size_t at = 0, attrs_at = 0;
    std::vector<int64_t> operands, bodies;
    std::vector<Result> results;
    size_t result_count = 0;
    std::vector<Symbol> sources, passes;
    bool has_origin = false;
  };

  bool format() {
    const size_t at = r_.at();
    std::string_view s;
    if (!r_.string(&s)) return false;
    has_format_ = s == "rlxc-graph" || s == "rlxc-lir";
    return has_format_ || doc_.error(Code::BadJson, "the format is \"" + std::string(s) + "\", not \"rlxc-graph\"", at);
  }
  bool stage() {
    const size_t at = r_.at();
    std::string_view s;
    if (!r_.string(&s)) return false;
    // A planned module is planned again.
    if (s == "hir" || s == "mir" || s == "lir") {
      module_.stage = s == "hir" ? Stage::Hir : Stage::Mir;
      return true;
    }
    return doc_.error(Code::BadJson, "the stage is \"hir\" or \"mir\"", at);
  }
  bool symbols() {
    std::string_view s;
    for (r_.begin_array(); r_.next_item();)
      if (r_.string(&s)) module_.dims.symbol(s);
    return r_.ok();
  }
  bool size(Dim* out) {
    if (r_.peek() == JsonReader::Kind::Number) {
      int64_t n = 0;
      return r_.integer(&n) && (*out = module_.dims.constant(n), true);
    }
    std::string_view s;
    const size_t at = r_.at();
    if (!r_.string(&s)) return false;
    const auto d = module_.dims.parse(s);
    return d ? (*out = *d, true) : doc_.error(Code::BadShape, "\"" + std::string(s) + "\" is no size", at);
  }
  bool named_sizes() {
    for (r_.begin_array(); r_.next_item();) {
      const size_t at = r_.at();
      std::array<std::string, 2> pair;
      size_t n = 0;
      for (r_.begin_array(); r_.next_item(); ++n) n < 2 ? r_.string(&pair[n]) : r_.skip();
      if (r_.ok() && (n != 2 || !module_.dims.define(pair[0], pair[1])))
        return doc_.error(Code::BadShape, "a named size is a name as \"#0\" and its definition", at);
    }
    return r_.ok();
  }
  bool equalities() {
    for (r_.begin_array(); r_.next_item();) {
      const size_t at = r_.at();
      std::array<Dim, 2> pair;
      size_t n = 0;
      bool good = true;
      for (r_.begin_array(); r_.next_item(); ++n) good &= n < 2 ? size(&pair[n]) : r_.fail("two sizes make an equality");
      if (r_.ok() && n != 2) return r_.fail("two sizes make an equality", at);
      if (good && n == 2) equal_.push_back({pair[0], pair[1], at});
    }
    return r_.ok();
  }
  // Reads the output names of lir.json.
  bool io() {
    r_.begin_object();
    for (std::string_view key; r_.next_key(&key);) {
      if (key != "outputs") {
        r_.skip();
        continue;
      }
      for (r_.begin_array(); r_.next_item();) {
        r_.begin_object();
        std::string& name = output_names_.emplace_back();
        for (std::string_view k; r_.next_key(&k);) k == "name" ? r_.string(&name) : r_.skip();
      }
    }
    return r_.ok();
  }

  // Returns graph number `index`, creating it on first reference.
  Graph* graph_of(int64_t index, size_t at) {
    if (index < 0 || static_cast<uint64_t>(index) > doc_.text.size() / kFewestGraphBytes) {
      doc_.error(Code::BadJson, "there is no graph " + std::to_string(index), at);
      return nullptr;
    }
    if (index > 0 && graph_names_.empty()) find_graph_names();
    while (module_.graph_count() <= static_cast<size_t>(index)) {
      const size_t i = module_.graph_count();
      module_.make_graph(i < graph_names_.size() ? graph_names_[i] : std::string());
    }
    return &module_.graph(GraphId(static_cast<uint64_t>(index)));
  }

  // Reads the names of graphs, which are needed on creation: bodies are referenced before they are read. Only documents with
  // bodies are parsed twice.
  void find_graph_names() {
    JsonReader r(doc_.text);
    r.begin_object();
    for (std::string_view key; r.next_key(&key);) {
      if (key != "graphs") {
        r.skip();
        continue;
      }
      for (r.begin_array(); r.next_item();) {
        std::string& name = graph_names_.emplace_back();
        r.begin_object();
        for (std::string_view k; r.next_key(&k);) k == "name" ? r.string(&name) : r.skip();
      }
    }
    if (graph_names_.empty()) graph_names_.emplace_back();
  }

  bool graphs() {
    for (r_.begin_array(); r_.next_item();) {
      Graph* g = graph_of(static_cast<int64_t>(graphs_read_), r_.at());
      if (!g) return false;
      ++graphs_read_;
      graph(*g);
    }
    return r_.ok();
  }

  void graph(Graph& g) {
    values_.clear();
    far_values_.clear();
    std::vector<int64_t> inputs;
    struct Output {
      int64_t id = kAbsent;
      std::string name;
      size_t at = 0;
    };
    std::vector<Output> outputs;
    bool has_inputs = false, has_nodes = false;
    const size_t begin = r_.at();
    r_.begin_object();
    for (std::string_view key; r_.next_key(&key);) {
      if (key == "inputs") {
        has_inputs = true;
        for (r_.begin_array(); r_.next_item();) r_.integer(&inputs.emplace_back());
      } else if (key == "outputs") {
        for (r_.begin_array(); r_.next_item();) {
          Output& o = outputs.emplace_back();
          o.at = r_.at();
          if (r_.peek() == JsonReader::Kind::Number) {
            r_.integer(&o.id);
            continue;
          }
          named_value(&o.id, nullptr, &o.name);
        }
      } else if (key == "nodes") {
        has_nodes = true;
        for (r_.begin_array(); r_.next_item();)
          if (!doc_.count_node() || !node(g)) break;
      } else {
        r_.skip();
      }
    }
    if (!r_.ok()) return;
    if (!has_nodes) return void(doc_.error(Code::BadJson, "a graph needs \"nodes\"", begin));
    for (const Output& o : outputs) {
      ValueId v;
      if (value(o.id, o.at, {}, &v) && v.valid()) g.add_output(v, o.name.empty() ? Symbol() : module_.symbol(o.name));
    }
    bool same = inputs.size() == g.inputs().size();
    for (size_t i = 0; same && i < inputs.size(); ++i) {
      const ValueSlot* s = slot(inputs[i]);
      same = s && s->value == g.result(g.inputs()[i]);
    }
    if (has_inputs && !same && doc_.diagnostics.ok())
      doc_.error(Code::BadGraph, "\"inputs\" must list the Input nodes in the order of \"nodes\"", begin);
  }

  // Reads the members of a node, then creates it.
  bool node(Graph& g) {
    NodeText& t = text_;
    t.op.clear();
    t.name.clear();
    t.attrs = {};
    t.operands.clear();
    t.bodies.clear();
    t.sources.clear();
    t.passes.clear();
    t.result_count = 0;
    t.has_origin = false;
    t.at = r_.at();
    if (!r_.begin_object()) return false;
    for (std::string_view key; r_.next_key(&key);) {
      if (key == "op") r_.string(&t.op);
      else if (key == "operands") ids(&t.operands);
      else if (key == "results") results();
      else if (key == "attrs") {
        t.attrs_at = r_.at();
        r_.raw(&t.attrs);
      } else if (key == "name") r_.string(&t.name);
      else if (key == "bodies") ids(&t.bodies);
      else if (key == "sources") {
        t.has_origin = true;
        names(&t.sources);
      } else if (key == "passes") {
        t.has_origin = true;
        names(&t.passes);
      } else r_.skip();
    }
    if (!r_.ok()) return false;
    if (make(g)) return true;
    for (size_t i = 0; i < t.result_count; ++i) define(t.results[i].id, {ValueId(), true});
    return r_.ok();
  }

  void ids(std::vector<int64_t>* out) {
    for (r_.begin_array(); r_.next_item();) {
      if (r_.peek() == JsonReader::Kind::Null) {
        out->push_back(kAbsent);
        r_.null();
      } else if (r_.integer(&out->emplace_back()) && out->back() < 0) r_.fail("an id is negative");
    }
  }
  void names(std::vector<Symbol>* out) {
    std::string_view s;
    for (r_.begin_array(); r_.next_item();)
      if (r_.string(&s)) out->push_back(module_.symbol(s));
  }
  // Reads {"value": id, "type": type, "name": name} or, of format 1, [id, type, name]; all but the value may be absent. Outputs
  // have no type: `type_out` is null.
  void named_value(int64_t* id, TypeId* type_out, std::string* name) {
    const size_t at = r_.at();
    if (r_.peek() == JsonReader::Kind::Object) {
      r_.begin_object();
      for (std::string_view key; r_.next_key(&key);) {
        if (key == "value") r_.integer(id);
        else if (key == "name") r_.string(name);
        else if (key == "type" && type_out) type(type_out);
        else r_.skip();
      }
    } else {
      size_t n = 0;
      for (r_.begin_array(); r_.next_item(); ++n) {
        if (n == 0) r_.integer(id);
        else if (n == 1 && type_out) type(type_out);
        else if (n == (type_out ? 2U : 1U)) r_.string(name);
        else r_.fail("a list of more than a value, its type and its name");
      }
    }
    if (r_.ok() && *id < 0) r_.fail("\"value\" is missing or negative", at);
  }
  // Each is an object, a list of format 1, or the id of a value whose type is inferred.
  void results() {
    for (r_.begin_array(); r_.next_item();) {
      if (text_.result_count == text_.results.size()) text_.results.emplace_back();
      Result& result = text_.results[text_.result_count++];
      result = {};
      if (r_.peek() == JsonReader::Kind::Number) {
        const size_t at = r_.at();
        if (r_.integer(&result.id) && result.id < 0) r_.fail("the id of a value is negative", at);
      } else {
        named_value(&result.id, &result.type, &result.name);
      }
    }
  }
  // An object {"dtype": "f32", "dims": ["batch", 4]}, or the text "f32[batch,4]".
  void type(TypeId* out) {
    const size_t at = r_.at();
    std::string_view s;
    if (r_.peek() == JsonReader::Kind::Object) {
      std::string message;
      if (!r_.raw(&s)) return;
      const auto t = doc_.type_object(s, &message);
      if (t) *out = *t;
      else r_.fail(message, at);
      return;
    }
    if (!r_.string(&s)) return;
    const auto t = doc_.type(s);
    if (t) *out = *t;
    else r_.fail("\"" + std::string(s) + "\" is no type, such as f32[batch,4]", at);
  }

  std::string label() const {
    const std::string& name = !text_.name.empty()                                    ? text_.name
                              : text_.result_count && !text_.results[0].name.empty() ? text_.results[0].name
                                                                                     : text_.op;
    return quote(name) + " (" + text_.op + ")";
  }
  bool bad(Code code, std::string message) { return doc_.error(code, std::move(message), text_.at, label()); }

  const ValueSlot* slot(int64_t id) const {
    if (id >= 0 && static_cast<uint64_t>(id) < values_.size()) {
      const ValueSlot& s = values_[static_cast<size_t>(id)];
      return s.bad || s.value.valid() ? &s : nullptr;
    }
    const auto it = far_values_.find(id);
    return it == far_values_.end() ? nullptr : &it->second;
  }
  // Dense ids are stored in a vector, others in a map.
  void define(int64_t id, ValueSlot s) {
    if (slot(id)) return void(bad(Code::DuplicateName, "value " + std::to_string(id) + " is defined twice"));
    const auto index = static_cast<uint64_t>(id);
    if (index >= values_.size() && index < 2 * values_.size() + 1024)
      values_.resize(std::max<size_t>(index + 1, values_.size() + values_.size() / 2));
    if (index < values_.size()) values_[index] = s;
    else far_values_.emplace(id, s);
  }
  // Returns false after an error, including one of the node that defines the value.
  bool value(int64_t id, size_t at, const std::string& node, ValueId* out) {
    if (id == kAbsent) {
      *out = ValueId();
      return true;
    }
    const ValueSlot* s = slot(id);
    if (!s) return doc_.error(Code::UnknownName, "reads value " + std::to_string(id) + ", which no earlier node makes", at, node);
    return !s->bad && (*out = s->value, true);
  }

  bool make(Graph& g) {
    NodeText& t = text_;
    const auto op = op_from_name(t.op);
    if (t.op.empty()) return doc_.error(Code::BadJson, "a node needs \"op\"", t.at);
    if (!op || has_trait(*op, kTerminator)) return bad(Code::UnsupportedOp, "the operation \"" + t.op + "\" is unknown");
    bool good = true;
    operands_.clear();
    for (int64_t id : t.operands) {
      ValueId v;
      if (value(id, t.at, {}, &v)) operands_.push_back(v);
      else good = false;
    }
    bodies_.clear();
    for (int64_t id : t.bodies) {
      const Graph* body = id == 0 ? nullptr : graph_of(id, t.at);
      if (body) bodies_.push_back(body->id());
      else good = id == 0 ? bad(Code::BadGraph, "the main graph cannot be a body") : false;
    }
    if (!t.bodies.empty() && !has_trait(*op, kBody)) return bad(Code::BadGraph, "the operation has no bodies");
    AttrId attrs;
    int64_t data = kAbsent;
    good &= attributes(*op, &attrs, &data);
    if (!good || !result_types(*op, attrs)) return false;
    const NodeId n = g.make_node(*op, operands_, attrs, types_, bodies_);
    if (!t.name.empty()) g.set_node_name(n, module_.symbol(t.name));
    if (t.has_origin) g.set_origin(n, module_.add_origin({t.sources, t.passes}));
    for (size_t i = 0; i < t.result_count; ++i) {
      define(t.results[i].id, {g.result(n, i), false});
      if (!t.results[i].name.empty()) g.set_value_name(g.result(n, i), module_.symbol(t.results[i].name));
    }
    if (data != kAbsent) data_.push_back({g.id(), n, data, t.attrs_at});
    return true;
  }

  bool result_types(OpKind op, AttrId attrs) {
    NodeText& t = text_;
    types_.clear();
    bool complete = true;
    for (size_t i = 0; i < t.result_count; ++i) {
      complete &= t.results[i].type.valid();
      types_.push_back(t.results[i].type);
    }
    if (complete && (t.result_count > 0 || rlxc::result_count(op) == 0)) return true;
    if (op == OpKind::Input || op == OpKind::Param || t.result_count == 0)
      return bad(Code::BadJson, "a node needs \"results\" with their types");
    std::vector<const Type*> in;
    for (ValueId v : operands_) in.push_back(v.valid() ? &doc_graph_type(v) : nullptr);
    std::string message;
    const auto inferred = infer(module_, op, module_.attrs[attrs], in, bodies_, &message);
    if (!inferred) return bad(Code::BadShape, message);
    if (inferred->size() != t.result_count)
      return bad(Code::BadArity,
                 "makes " + std::to_string(inferred->size()) + " results, \"results\" lists " + std::to_string(t.result_count));
    for (size_t i = 0; i < types_.size(); ++i)
      if (!types_[i].valid()) types_[i] = module_.types.intern((*inferred)[i]);
    return true;
  }
  const Type& doc_graph_type(ValueId v) const { return module_.graph(GraphId(graphs_read_ - 1)).type(v); }

  bool attributes(OpKind op, AttrId* out, int64_t* data) {
    const NodeText& t = text_;
    std::unordered_map<std::string_view, AttrId>& known = attrs_[static_cast<size_t>(op)];
    const bool holds_data = std::holds_alternative<DataAttrs>(default_attrs(op));
    if (!holds_data)
      if (const auto it = known.find(t.attrs); it != known.end()) {
        *out = it->second;
        return true;
      }
    Attrs attrs = default_attrs(op);
    if (!t.attrs.empty()) {
      JsonReader r(t.attrs);
      r.begin_object();
      for (std::string_view key; r.next_key(&key);) {
        const std::string name(key);
        if (holds_data && name == "data") {
          r.integer(data);
          continue;
        }
        AttrValue v;
        std::string message;
        if (!read_attr_value(r, &v)) break;
        if (!set_attr_field(attrs, name, v, module_.dims, &message)) return bad(Code::BadAttribute, message);
      }
      if (!r.ok()) return r_.fail(r.error(), t.attrs_at + r.error_at());
    }
    *out = module_.attrs.intern(std::move(attrs));
    if (!holds_data) known.emplace(t.attrs, *out);
    return true;
  }

  // Checks that bodies form a tree below the main graph, of bounded depth.
  bool check_nesting() {
    std::vector<bool> seen(module_.graph_count());
    std::vector<GraphId> level = {GraphId(0)}, next;
    for (size_t depth = 0; !level.empty(); ++depth, level.swap(next), next.clear()) {
      if (depth > doc_.options.max_depth)
        return doc_.error(Code::TooLarge, "bodies are nested deeper than " + std::to_string(doc_.options.max_depth) + " levels",
                          0);
      for (GraphId id : level) {
        const Graph& g = module_.graph(id);
        for (NodeId n : g.nodes())
          for (GraphId b : g.bodies(n)) {
            if (b == GraphId(0) || seen[b.raw])
              return doc_.error(Code::BadGraph, "graph " + std::to_string(b.raw) + " is the body of two nodes", 0);
            seen[b.raw] = true;
            next.push_back(b);
          }
      }
    }
    return true;
  }

  Document& doc_;
  JsonReader& r_;
  Module& module_;
  ConstantReader constants_;
  NodeText text_;
  std::vector<ValueSlot> values_;  // by id, of the current graph
  std::unordered_map<int64_t, ValueSlot> far_values_;
  std::vector<ValueId> operands_;
  std::vector<GraphId> bodies_;
  std::vector<TypeId> types_;
  std::array<std::unordered_map<std::string_view, AttrId>, kOpCount> attrs_;  // by the text of the attributes
  std::vector<PendingData> data_;
  struct Equal {
    Dim a, b;
    size_t at;
  };
  std::vector<Equal> equal_;
  std::vector<std::string> output_names_, graph_names_;
  size_t graphs_read_ = 0;
  bool has_format_ = false;
};

}  // namespace

std::unique_ptr<Module> parse_json(std::string_view text, const std::string& folder, const ImportOptions& options,
                                   Diagnostics& d) {
  const size_t errors = d.errors();
  auto module = std::make_unique<Module>();
  Document doc(text, folder, options, d, *module);
  if (const auto fault = name_fault(text, {"graph", "lir"})) return doc.error(Code::BadJson, fault->message, fault->at), nullptr;
  GraphReader reader(doc);
  JsonReader& r = doc.reader;
  bool reference = false;
  r.begin_object();
  for (std::string_view key; !reference && r.next_key(&key);) {
    // Members of the reference format only.
    reference = key == "nodes" || key == "outputs" || key == "mir" || key == "inner" || key == "fusion_policy";
    if (reference ? !read_reference_graph(doc, key) : !reader.member(key)) break;
  }
  if (r.ok() && d.errors() == errors) r.finish();
  // The reader says more about most faults than the schema. Of those of JSON, the schema says which member has them.
  const auto fault = !r.ok() || d.errors() == errors ? form_fault(text, {"graph", "lir"}) : std::nullopt;
  if (!r.ok()) doc.error(Code::BadJson, r.error() + (fault ? " (" + fault->message + ")" : ""), r.error_at());
  else if (d.errors() == errors && !reference) reader.finish();
  if (r.ok() && d.errors() == errors && fault) doc.error(Code::BadJson, fault->message, fault->at);
  return d.errors() == errors ? std::move(module) : nullptr;
}

}  // namespace rlxc::import_json
