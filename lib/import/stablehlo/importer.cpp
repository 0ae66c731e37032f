#include "import/stablehlo/importer.h"

#include <algorithm>

#include "support/text.h"

namespace rlxc::stablehlo_import {
namespace {

constexpr int kMaxDepth = 200;          // of calls and regions together
constexpr int64_t kFewElements = 1024;  // larger literals are parameters
constexpr std::string_view kResultInfo = "jax.result_info", kArgumentInfo = "jax.arg_info", kGlobal = "jax.global_constant";

const OpRow* row_of(std::string_view op) {
  static const auto rows = [] {
    std::unordered_map<std::string_view, const OpRow*> all;
    for (const auto family : {elementwise_rows(), special_rows(), movement_rows(), dynamic_rows(), linear_rows(), reduce_rows(),
                              index_rows(), sort_rows(), complex_rows(), control_rows()})
      for (const OpRow& r : family) all.emplace(r.name, &r);
    return all;
  }();
  for (const std::string_view dialect : {"stablehlo.", "chlo.", "mhlo."})
    if (op.starts_with(dialect)) {
      const auto it = rows.find(op.substr(dialect.size()));
      return it == rows.end() ? nullptr : it->second;
    }
  return nullptr;
}

bool is_return(const Operation& o) { return o.name == "return" || o.name.ends_with(".return"); }

// "result['a'][0]" as "result_a_0".
std::string name_from(std::string_view info) {
  std::string out;
  bool gap = false;
  for (const char c : info) {
    const bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    if (good && gap && !out.empty()) out += '_';
    if (good) out += c;
    gap = !good;
  }
  return out;
}

const Attr* find_in(const std::vector<Attr>& list, std::string_view key) {
  for (const Attr& a : list)
    if (a.key == key) return &a;
  return nullptr;
}

}  // namespace

Importer::Importer(const ModuleText& t, LineIndex& lines, const ImportOptions& o, Diagnostics& d, Module& m)
    : text_(t), lines_(lines), options_(o), d_(d), module_(m) {}

bool Importer::error(Code code, std::string message, size_t at, const std::string& help) {
  d_.error(code, std::move(message), lines_.place(at), help);
  return false;
}

std::string Importer::fresh_name(std::string_view prefix) {
  const int n = names_[std::string(prefix)]++;
  return n == 0 ? std::string(prefix) : fresh_name(std::string(prefix) + "_" + std::to_string(n));
}

// JAX passes the sizes of the arguments of @main to a function whose arguments name them, after it compared those of one name.
void Importer::name_sizes(const Function& main) {
  using Place = std::pair<std::string_view, int64_t>;  // an argument, and its axis
  std::map<std::string_view, Place> sizes;
  std::map<std::string_view, std::string_view> same;  // a size that is to equal another one
  const auto name = [&](std::string_view size, std::string_view called) {
    if (const auto place = sizes.find(size); place != sizes.end()) size_names_[place->second] = called;
  };
  for (const Operation& o : main.body.operations) {
    if (o.name == "stablehlo.get_dimension_size" && o.operands.size() == 1 && o.results.size() == 1) {
      const Attr* axis = o.find("dim") ? o.find("dim") : o.find("dimension");
      if (axis) sizes[o.results[0].name] = {o.operands[0].name, axis->integer};
    }
    if (o.name == "stablehlo.compare" && o.operands.size() == 2 && !o.words.empty() && o.words[0] == "EQ")
      same[o.operands[0].name] = o.operands[1].name;
    const auto callee = o.name == "call" ? functions_.find(o.symbol) : functions_.end();
    if (callee == functions_.end()) continue;
    const auto& arguments = callee->second->body.arguments;
    for (size_t i = 0; i < std::min(arguments.size(), o.operands.size()); ++i) {
      const std::string_view operand = o.operands[i].name;
      const Attr* called = find_in(arguments[i].attributes, kGlobal);
      if (called) name(operand, called->text);
      else if (!arguments[i].label.empty()) size_names_[{operand, kUnknownSize}] = arguments[i].label;
    }
  }
  for (const auto& [size, other] : same) {
    const auto place = sizes.find(other);
    const auto known = place == sizes.end() ? size_names_.end() : size_names_.find(place->second);
    if (known != size_names_.end()) name(size, known->second);
  }
}

void Importer::run() {
  const Function* main = nullptr;
  for (const Function& f : text_.functions) {
    if (!functions_.emplace(f.name, &f).second) error(Code::DuplicateName, "there are two functions " + quote(f.name), f.at);
    if (f.name == "main") main = &f;
  }
  if (!main)
    for (const Function& f : text_.functions)
      if (f.is_public) main = main ? main : &f;
  if (!main) return void(error(Code::BadGraph, "the module has no public function", 0));
  name_sizes(*main);
  Block block(module_, module_.main().id(), nullptr, d_);
  block_ = main_ = &block;
  std::vector<Value> arguments;
  int unnamed = 0;
  for (const Argument& a : main->body.arguments) {
    Value v;
    v.block = block_;
    v.dtype = a.type.dtype.value_or(DType::F32);
    const bool good = a.type.dtype && a.type.text.starts_with("tensor") && !is_complex(v.dtype) && v.dtype != DType::String;
    if (!good)
      error(Code::UnsupportedAttribute,
            "the argument %" + ForeignText(a.name).line() + " is of type " + ForeignText(a.type.text).line() +
                ", which is not read",
            a.at);
    for (size_t i = 0; i < a.type.dims.size(); ++i) {
      const int64_t n = a.type.dims[i];
      if (n != kUnknownSize) {
        v.dims.emplace_back(n);
        continue;
      }
      const auto named = size_names_.find({a.name, static_cast<int64_t>(i)});
      v.dims.push_back(
          module_.dims.symbol(named == size_names_.end() ? "dim" + std::to_string(unnamed) : std::string(named->second)));
      ++unnamed;
    }
    if (good) {
      const Attr* info = find_in(a.attributes, kArgumentInfo);
      const auto called = size_names_.find({a.name, kUnknownSize});
      std::string name = name_from(info                          ? info->text
                                   : !a.label.empty()            ? a.label
                                   : called != size_names_.end() ? called->second
                                                                 : a.name);
      if (name.empty() || (name[0] >= '0' && name[0] <= '9')) name = "arg" + name;
      v.id = block.b.input(fresh_name(name), tensor_type(v.dtype, v.dims));
    }
    arguments.push_back(std::move(v));
  }
  Scope scope;
  for (size_t i = 0; i < arguments.size(); ++i)
    if (!scope.values.emplace(main->body.arguments[i].name, std::vector{arguments[i]}).second)
      error(Code::DuplicateName, "two arguments are named %" + ForeignText(main->body.arguments[i].name).line(),
            main->body.arguments[i].at);
  const std::vector<Value> results = operations(main->body, scope);
  if (!d_.ok()) return;
  if (results.empty()) return void(error(Code::BadGraph, "the function gives no result", main->at));
  for (size_t i = 0; i < results.size(); ++i) {
    Operation none;
    none.at = main->at;
    std::vector<Value> out;
    if (results[i].is_complex())
      error(Code::UnsupportedAttribute, "result " + std::to_string(i) + " is complex: give its parts", main->at);
    const ValueId v = Op(*this, none, {}, &out).whole(results[i]);
    const Attr* info = i < main->results.size() ? find_in(main->results[i].attributes, kResultInfo) : nullptr;
    std::string name = name_from(info ? info->text : "");
    if (name.empty()) name = "output" + std::to_string(i);
    if (name[0] >= '0' && name[0] <= '9') name = "output" + name;
    if (v.valid()) block.graph->add_output(v, module_.symbol(fresh_name(name)));
  }
  for (size_t i = 0; i < module_.graph_count(); ++i) shape_products(module_.graph(GraphId(i)), d_);
}

std::vector<Value> Importer::region(const Region& r, std::vector<Value> arguments, bool lift) {
  if (r.arguments.size() != arguments.size()) {
    error(Code::BadArity,
          "a region takes " + std::to_string(r.arguments.size()) + " values, gets " + std::to_string(arguments.size()),
          now_ ? now_->at : 0);
    return {};
  }
  Scope scope;
  scope.parent = scope_;
  for (size_t i = 0; i < arguments.size(); ++i) scope.values[r.arguments[i].name] = {std::move(arguments[i])};
  const bool before = std::exchange(lifted_, lifted_ || lift);
  std::vector<Value> out = operations(r, scope);
  lifted_ = before;
  return out;
}

std::vector<Value> Importer::call(std::string_view name, std::vector<Value> arguments) {
  const size_t at = now_ ? now_->at : 0;
  const auto f = functions_.find(name);
  if (f == functions_.end())
    return error(Code::UnknownName, "there is no function @" + ForeignText(name).line(), at), std::vector<Value>();
  const auto& takes = f->second->body.arguments;
  if (takes.size() != arguments.size()) {
    error(Code::BadArity,
          "@" + ForeignText(name).line() + " takes " + std::to_string(takes.size()) + " values, gets " +
              std::to_string(arguments.size()),
          at);
    return {};
  }
  Scope scope;  // sees nothing of the caller
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (const auto t = takes[i].type.dtype;
        arguments[i].valid() && (!t || part_type(*t) != arguments[i].dtype || is_complex(*t) != arguments[i].is_complex())) {
      error(Code::BadType, "argument " + std::to_string(i) + " of @" + ForeignText(name).line() + " is of another type", at);
      return {};
    }
    scope.values[takes[i].name] = {std::move(arguments[i])};
  }
  return operations(f->second->body, scope);
}

const Value* Importer::find(std::string_view name, uint32_t index) const {
  for (const Scope* s = scope_; s; s = s->parent)
    if (const auto it = s->values.find(name); it != s->values.end())
      return index < it->second.size() ? &it->second[index] : nullptr;
  return nullptr;
}

std::vector<Value> Importer::operations(const Region& r, Scope& scope) {
  if (depth_ >= kMaxDepth) {
    error(Code::TooLarge, "calls and regions nest deeper than " + std::to_string(kMaxDepth), now_ ? now_->at : 0);
    nodes_ = options_.max_nodes + 1;
    return {};
  }
  ++depth_;
  Scope* const outer = std::exchange(scope_, &scope);
  std::vector<Value> results;
  bool returned = false;
  for (const Operation& o : r.operations) {
    if (full()) break;
    const Operation* const caller = std::exchange(now_, &o);
    if (is_return(o)) {
      returned = true;
      for (const Operand& x : o.operands) {
        const Value* v = find(x.name, x.index);
        if (!v) error(Code::UnknownName, "there is no value %" + ForeignText(x.name).line(), x.at);
        results.push_back(v ? *v : Value());
      }
    } else {
      operation(o, scope);
    }
    now_ = caller;
    if (returned) break;
  }
  if (!returned && !full())
    error(Code::BadGraph, "a region has no return", r.operations.empty() ? now_ ? now_->at : 0 : r.operations.back().at);
  scope_ = outer;
  --depth_;
  return results;
}

void Importer::operation(const Operation& o, Scope& scope) {
  if (++nodes_ > options_.max_nodes) {
    if (nodes_ == options_.max_nodes + 1)
      error(Code::TooLarge, "there are more than " + std::to_string(options_.max_nodes) + " operations, counted per call", o.at,
            "--max-nodes allows more");
    return;
  }
  std::vector<Value> operands, results(o.result_count());
  bool known = true;  // false: an earlier error is already reported
  for (const Operand& x : o.operands) {
    const Value* v = find(x.name, x.index);
    if (!v) error(Code::UnknownName, "there is no value %" + ForeignText(x.name).line(), x.at);
    known = known && v && v->valid();
    operands.push_back(v ? *v : Value());
  }
  Op op(*this, o, std::move(operands), &results);
  const OpRow* row = row_of(o.name);
  const bool calls = o.name == "call";
  if (o.result_types.size() < results.size()) {
    op.fail(Code::NotAModel, "its " + std::to_string(results.size()) + " results have no types");
  } else if (calls) {
    if (known) op.set_all(call(o.symbol, op.all()));
  } else if (!row) {
    op.fail(Code::UnsupportedOp, "it is not in the vocabulary");
  } else if (lifted_ && !row->elementwise) {
    op.unsupported("it is not elementwise, in the region of an operation that applies the region to every element");
  } else if (results.empty() && row->name != "custom_call" && row->name != "optimization_barrier") {
    op.fail(Code::BadArity, "it gives no result");
  } else if (known && std::ranges::any_of(op.all(), &Value::is_complex) && row->complex != Complex::Own) {
    if (row->complex == Complex::EachPart) each_part(*row, o, op.all(), &results);
    else op.unsupported("it does not take complex numbers here");
  } else if (known) {
    row->handler(op);
  }
  size_t next = 0;
  for (const Operation::Result& r : o.results) {
    std::vector<Value> group(results.begin() + static_cast<std::ptrdiff_t>(next),
                             results.begin() + static_cast<std::ptrdiff_t>(next + r.count));
    next += r.count;
    if (!scope.values.emplace(r.name, std::move(group)).second)
      error(Code::DuplicateName, "there are two values %" + ForeignText(r.name).line(), o.at);
  }
}

void Importer::each_part(const OpRow& row, const Operation& o, const std::vector<Value>& operands, std::vector<Value>* results) {
  std::vector<Value> real = operands, imaginary = operands, real_results(results->size()), imaginary_results(results->size());
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].is_complex()) imaginary[i].id = operands[i].imaginary;
    real[i].imaginary = imaginary[i].imaginary = {};
  }
  Op first(*this, o, std::move(real), &real_results, true), second(*this, o, std::move(imaginary), &imaginary_results, true);
  row.handler(first);
  if (d_.ok()) row.handler(second);
  for (size_t i = 0; i < results->size(); ++i) {
    if (!real_results[i].valid() || !imaginary_results[i].valid()) continue;
    Value& v = (*results)[i] = real_results[i];
    v.id = local(v.id, v.block);
    v.imaginary = local(imaginary_results[i].id, imaginary_results[i].block);
    v.block = block_;
  }
}

ValueId Importer::local(ValueId v, Block* from, Block& to) {
  if (!v.valid() || from == &to) return v;
  if (!to.parent) return {};
  const NodeId n = from->graph->def(v);
  const OpKind kind = from->graph->op(n);
  if (kind == OpKind::Constant || kind == OpKind::DimValue) {
    auto& made = to.copied_of[{from, v.raw}];
    if (!made.valid()) {
      const TypeId type = from->graph->type_id(v);
      made = to.graph->result(to.graph->make_node(kind, {}, from->graph->attr_id(n), {&type, 1}));
    }
    return made;
  }
  const ValueId outer = local(v, from, *to.parent);
  if (!outer.valid()) return {};
  auto& inner = to.inner_of[outer.raw];
  if (!inner.valid()) {
    inner = to.b.input(fresh_name("captured"), to.parent->graph->type(outer));
    to.captures.push_back({outer, inner});
  }
  return inner;
}

Value Importer::literal(const Attr& a, const TensorType& t, size_t at) {
  Value v;
  if (t.dtype && is_complex(*t.dtype) && a.kind == Attr::Kind::Dense && a.text.starts_with('(')) {  // one number, broadcast
    const size_t comma = std::min(a.text.find(','), a.text.size() - 1), end = a.text.find(')');
    TensorType part = t;
    part.dtype = part_type(*t.dtype);
    const auto half = [&](size_t from, size_t to) {
      Attr one = a;
      one.text = trim(a.text.substr(from, to < from ? 0 : to - from));
      return literal(one, part, at);
    };
    v = half(1, comma);
    if (v.valid()) v.imaginary = half(comma + 1, end).id;
    return v.imaginary.valid() ? v : Value();
  }
  const bool lacks = !t.dtype || is_complex(*t.dtype) || *t.dtype == DType::String;
  if (lacks || std::ranges::count(t.dims, kUnknownSize)) {
    error(Code::UnsupportedAttribute, "constants of type " + ForeignText(t.text).line() + " are not read", at);
    return v;
  }
  v.dtype = *t.dtype;
  v.dims.assign(t.dims.begin(), t.dims.end());
  const auto key = std::pair(a.text.data(), std::string(t.text));
  if (const auto it = weights_.find(key); it != weights_.end()) return it->second;
  std::string message;
  std::optional<TensorData> data;
  if (a.kind == Attr::Kind::Resource) {
    const auto it = text_.resources.find(a.text);
    if (it == text_.resources.end() || it->second.size() < 10) {
      error(Code::MissingWeights, "the contents of the resource " + quote(a.text) + " are not in the text", at,
            "print the module without eliding large constants");
      return v;
    }
    const std::string digits = "\"0x" + std::string(it->second.substr(10)) + "\"";  // behind 0x and 4 bytes of alignment
    data = read_literal(digits, v.dtype, t.dims, &message);
  } else {
    if (a.text.starts_with("__elided__")) {
      error(Code::MissingWeights, "the constant is elided", at, "print the module without eliding large constants");
      return v;
    }
    data = read_literal(a.text, v.dtype, t.dims, &message);
  }
  if (!data)
    return error(Code::BadTensor, "the literal does not fit its type, " + ForeignText(t.text).line() + ": " + message, at), v;
  const int64_t count = data->elements();
  if (count <= kMostKnown && (is_integer(v.dtype) || v.dtype == DType::Bool) && bits(v.dtype) >= 8 && v.dtype != DType::U64 &&
      t.dims.size() <= 1) {
    v.known.emplace();
    for (int64_t i = 0; i < count; ++i) v.known->push_back(module_.dims.constant(element_as_int(*data, i)));
  }
  v.block = block_;
  if (data->splat || (count == 1 && !t.dims.empty())) {  // one number, broadcast
    TensorData one = make_data(v.dtype, {}, data->bytes);
    v.id = block_->b.constant(std::move(one));
  } else if (count > kFewElements && is_float(v.dtype)) {
    v.block = main_;
    const DataId id = module_.data.add(std::move(*data));
    v.id = main_->b.param(fresh_name("constant"), tensor_type(v.dtype, v.dims), id);
    weights_.emplace(key, v);
  } else {
    v.id = block_->b.constant(std::move(*data));
  }
  return v;
}

std::unique_ptr<Module> import_stablehlo(std::string_view text, const ImportOptions& options, Diagnostics& d) {
  LineIndex lines(text);
  const auto parsed = parse_module(text, lines, d);
  if (!parsed) return nullptr;
  auto m = std::make_unique<Module>(parsed->name.empty() ? "main" : parsed->name);
  Importer(*parsed, lines, options, d, *m).run();
  return d.ok() ? std::move(m) : nullptr;
}

}  // namespace rlxc::stablehlo_import
