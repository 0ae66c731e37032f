// Declarations of ONNX graphs: initializers, typed inputs and outputs, bodies.
#include <algorithm>
#include <charconv>

#include "import/onnx/importer.h"
#include "ir/bind_dims.h"
#include "ir/dim_postfix.h"
#include "support/parse_number.h"
#include "support/text.h"

namespace rlxc::onnx_import {
namespace {

constexpr std::string_view kUnknownSize = "?";  // an arbitrary size in some exporters; occurrences may differ

// "2*seq + 1" and "floordiv(h,2)" are expressions; "batch-size" and "s0//2" are names.
bool looks_like_expression(std::string_view s) {
  return s.size() <= 200 &&
         (s.find('+') != s.npos || s.find('*') != s.npos || s.find(" - ") != s.npos || s.find("floordiv(") != s.npos);
}

// The names of the dims of a ValueInfoProto that is a tensor.
std::vector<std::string_view> dim_names(Bytes value_info) {
  std::vector<std::string_view> names;
  std::vector<Bytes> level{value_info};
  for (const uint32_t field : {2, 1, 2, 1}) {  // type, tensor type, shape, dim
    std::vector<Bytes> next;
    for (Bytes b : level)
      for (WireReader r(b); r.next();)
        if (r.tag() == bytes_field(field)) next.push_back(r.bytes());
    level = std::move(next);
  }
  for (Bytes b : level)
    for (WireReader r(b); r.next();)
      if (r.tag() == bytes_field(2) && r.text() != kUnknownSize) names.push_back(r.text());
  return names;
}

// Returns whether a value of type `given` may be the default of an input declared as `declared`. Symbolic dims match any size.
bool is_default_of(const Type& declared, const Type& given) {
  if (declared.dtype != given.dtype || declared.kind != given.kind) return false;
  if (!declared.ranked) return true;
  return std::ranges::equal(declared.dims, given.dims, [](Dim a, Dim b) { return !a.is_static() || a == b; });
}

constexpr int kMaxTypeDepth = 8;

}  // namespace

// Reads a graph except its nodes. Declares initializers and lists the rest.
bool Importer::read_graph(Bytes graph, GraphInfo* info) {
  const size_t errors = diagnostics_.errors();
  WireReader r(graph);
  while (r.next()) switch (r.tag()) {
      case bytes_field(1): ++info->nodes; break;
      case bytes_field(2): info->name = r.text(); break;
      case bytes_field(5): declare_initializer(r.bytes(), false); break;
      case bytes_field(11): info->inputs.push_back(r.bytes()); break;
      case bytes_field(12): info->outputs.push_back(r.bytes()); [[fallthrough]];
      case bytes_field(13):
        if (ValueInfoView v; scopes_.size() == 1 && read_value_info(r.bytes(), &v) && v.has_type)
          value_infos_.emplace(symbol(v.name).raw, v.type);
        break;
      case bytes_field(15): declare_initializer(r.bytes(), true); break;
    }
  if (!r.ok()) diagnostics_.error(Code::NotAModel, "the graph is cut short or malformed");
  return diagnostics_.errors() == errors;
}

void Importer::declare_initializer(Bytes b, bool sparse) {
  TensorView view;
  SparseTensorView sparse_view;
  bool read = sparse ? read_sparse_tensor(b, &sparse_view) : read_tensor(b, &view);
  if (sparse && read) {
    TensorView values;
    read = read_tensor(sparse_view.values, &values);
    view.name = values.name;
  }
  if (!read) return diagnostics_.error(Code::NotAModel, "an initializer is cut short or malformed");
  const std::string place = "initializer " + quote(view.name);
  if (view.name.empty()) return diagnostics_.error(Code::BadTensor, "an initializer has no name");
  bool missing = false;
  auto data = sparse ? source_.load_sparse(sparse_view, place, diagnostics_) : source_.load(view, place, diagnostics_, &missing);
  const bool trainable = options_.trainable && data && is_float(data->dtype);
  if (trainable && options_.float_initializers) options_.float_initializers->emplace_back(view.name);
  const ValId v = data ? constant(std::move(*data), missing, trainable) : bad_value();
  if (!bind(symbol(view.name), v)) diagnostics_.error(Code::DuplicateName, "two initializers have this name", place);
}

Dim Importer::named_dim(std::string_view name) {
  if (looks_like_expression(name) && !plain_dims_.contains(name))
    if (const auto d = dims().parse(name)) {
      for (const std::string& s : dims().symbols_of(*d)) model_dims_.emplace(s, model_dims_.size());
      return dims().bind(*d, bound_);
    }
  model_dims_.emplace(std::string(name), model_dims_.size());
  const auto bound = bound_.find(name);
  return bound == bound_.end() ? dims().symbol(name) : Dim(bound->second);
}

// Finds the names of input dims that read as expressions of sizes that the inputs do not determine, such as "past+seq" where no
// input has the axis past. A caller could not give those sizes.
void Importer::find_plain_dims(const GraphInfo& info) {
  constexpr size_t kMost = 1000;  // to solve for sizes takes time in the square of the expressions
  DimTable table;
  std::vector<std::pair<std::string_view, Dim>> named;
  size_t expressions = 0;
  for (Bytes input : info.inputs)
    for (std::string_view name : dim_names(input)) {
      const auto d = looks_like_expression(name) ? table.parse(name) : std::nullopt;
      expressions += d.has_value();
      named.emplace_back(name, d ? *d : table.symbol(name));
    }
  if (expressions == 0 || expressions > kMost) return;
  DimBindings example = bound_, found = bound_;
  for (int64_t size = 1'000'000; const std::string& symbol : table.symbol_names()) example.emplace(symbol, size += 5040);
  std::vector<KnownSize> sizes;
  for (const auto& [name, dim] : named)
    if (const auto size = table.evaluate(dim, example)) sizes.push_back({dim, *size});
  solve_dims(table, sizes, &found);
  for (const auto& [name, dim] : named)
    if (!std::ranges::all_of(table.symbols_of(dim), [&](const std::string& s) { return found.contains(s); }))
      plain_dims_.emplace(name);
}

bool Importer::is_of_inputs(Dim d) {
  return std::ranges::all_of(dims().symbols_of(d), [&](const std::string& s) { return input_dims_.contains(s); });
}

// Returns nullopt with a diagnostic, or silently if `place` is empty.
std::optional<Type> Importer::read_type(Bytes proto, const std::string& place) {
  const auto fail = [&](Code c, std::string message) {
    if (!place.empty()) diagnostics_.error(c, std::move(message), place);
    return std::nullopt;
  };
  Type type;
  Bytes tensor;
  Diagnostics local;
  bool found = false;
  for (int depth = 0; depth < kMaxTypeDepth && !found; ++depth) {
    Bytes inner;
    bool nested = false;
    WireReader r(proto);
    while (r.next()) switch (r.tag()) {
        case bytes_field(1): tensor = r.bytes(), found = true; break;
        case bytes_field(4):
        case bytes_field(9): {
          const TypeKind kind = r.tag() == bytes_field(4) ? TypeKind::Sequence : TypeKind::Optional;
          if (type.key != MapKey::None) return fail(Code::UnsupportedAttribute, "the values of a map must be single elements");
          if (type.kind == TypeKind::Tensor) type.kind = kind;
          else if (type.kind == TypeKind::Optional && kind == TypeKind::Sequence) type.of_sequence = true;
          else return fail(Code::UnsupportedAttribute, "nested sequence types are not supported");
          nested = true;
          WireReader element(r.bytes());
          while (element.next())
            if (element.tag() == bytes_field(1)) inner = element.bytes();
          break;
        }
        case bytes_field(5): {
          if (type.key != MapKey::None) return fail(Code::UnsupportedAttribute, "the values of a map must be single elements");
          if (type.kind == TypeKind::Tensor) type.kind = TypeKind::Map;
          nested = true;
          int64_t key = 0;
          WireReader map(r.bytes());
          while (map.next()) switch (map.tag()) {
              case varint_field(1): key = map.value(); break;
              case bytes_field(2): inner = map.bytes(); break;
            }
          const auto keys = read_dtype(key, place, local);
          if (keys != DType::I64 && keys != DType::String)
            return fail(Code::UnsupportedAttribute, "the keys of a map must be int64 or string");
          type.key = keys == DType::I64 ? MapKey::I64 : MapKey::String;
          break;
        }
        case bytes_field(8): return fail(Code::UnsupportedAttribute, "sparse tensors are not supported");
      }
    if (!r.ok()) return fail(Code::NotAModel, "its type is malformed");
    if (!found && !nested) return fail(Code::BadType, "it has no type");
    proto = inner;
  }
  if (!found) return fail(Code::UnsupportedAttribute, "its type is nested too deeply");
  int64_t element_type = 0;
  bool has_shape = false;
  Bytes shape;
  WireReader r(tensor);
  while (r.next()) switch (r.tag()) {
      case varint_field(1): element_type = r.value(); break;
      case bytes_field(2): shape = r.bytes(), has_shape = true; break;
    }
  const auto dtype = read_dtype(element_type, place, local);
  if (!dtype) return fail(local.items()[0].code, local.items()[0].message);
  type.dtype = *dtype;
  type.ranked = has_shape;
  WireReader axes(shape);
  while (axes.next()) {
    if (axes.tag() != bytes_field(1)) continue;
    std::optional<Dim> d;
    WireReader axis(axes.bytes());
    while (axis.next()) {
      if (axis.tag() == varint_field(1)) {
        if (axis.value() < 0 && axis.value() != -1)
          return fail(Code::BadShape, "size " + std::to_string(axis.value()) + " is negative");
        if (axis.value() > Dim::kMax) return fail(Code::TooLarge, "size " + std::to_string(axis.value()) + " is too large");
        if (axis.value() >= 0) d = Dim(axis.value());
      } else if (axis.tag() == bytes_field(2) && !axis.text().empty() && axis.text() != kUnknownSize) {
        d = named_dim(axis.text());
      }
    }
    type.dims.push_back(d ? *d : dims().fresh("dim"));
    if (type.dims.size() > 64) return fail(Code::TooLarge, "its rank is more than 64");
  }
  if (!r.ok() || !axes.ok()) return fail(Code::NotAModel, "its type is malformed");
  if (type.key != MapKey::None) {
    if (std::ranges::any_of(type.dims, [](Dim d) { return d != Dim(1); }))
      return fail(Code::UnsupportedAttribute, "the values of a map must be single elements");
    type.ranked = true;
    type.dims.clear();
  }
  return type;
}

std::optional<Type> Importer::declared(Symbol s) {
  const auto it = scopes_.size() == 1 ? value_infos_.find(s.raw) : value_infos_.end();
  return it == value_infos_.end() ? std::nullopt : read_type(it->second, {});
}

void Importer::main_inputs(const GraphInfo& info) {
  for (Bytes b : info.inputs) {
    ValueInfoView view;
    if (!read_value_info(b, &view)) {
      diagnostics_.error(Code::NotAModel, "an input is malformed");
      continue;
    }
    const std::string place = "input " + quote(view.name);
    const Symbol s = symbol(view.name);
    const ValId given = view.name.empty() ? ValId() : lookup(s);
    if (given.valid() && vals_[given.raw].tensor != Val::kNone) {  // an initializer is the default of an input, and is used
      if (const auto declared = view.has_type ? read_type(view.type, {}) : std::nullopt;
          declared && !is_default_of(*declared, type(given)))
        diagnostics_.error(declared->dtype != type(given).dtype ? Code::BadType : Code::BadShape,
                           "it is declared " + text(*declared, dims()) + ", its initializer is " + text(type(given), dims()),
                           place);
      continue;
    }
    if (given.valid() && vals_[given.raw].bad) continue;
    auto t = view.has_type ? read_type(view.type, place) : std::nullopt;
    if (!view.has_type) diagnostics_.error(Code::BadType, "it has no type", place);
    if (t && !t->ranked && t->kind == TypeKind::Tensor && !find_shape(view.name, &*t)) {
      diagnostics_.error(Code::UnsupportedAttribute, "it is declared without a shape", place,
                         "--shape " + module_.text(s).shell_word() +
                             "=2x3 gives it one (sizes or names); rlxc run --data takes it from the data");
      t.reset();
    } else if (t && t->ranked && !complete_shape(view.name, place, &*t)) t.reset();
    if (t && options_.constant_sizes) take_sizes(&*t);
    ValId v;
    if (t) {
      for (Dim& d : t->dims) {  // unnamed dims get a name that can be bound
        if (const auto own = symbol_name(dims(), d); own && !model_dims_.contains(*own)) d = named_dim(*own);
        for (std::string& name : dims().symbols_of(d)) input_dims_.insert(std::move(name));
      }
      v = value(frame().builder.input(view.name, *t));
      vals_[v.raw].input = static_cast<uint32_t>(frame().graph->inputs().size() - 1);
      input_values_.emplace(frame().graph->inputs().back().raw, v);
      frame().leaf_names.insert(s.raw);
    } else {
      v = bad_value();
    }
    if (view.name.empty()) diagnostics_.error(Code::BadGraph, "an input has no name");
    else if (!bind(s, v)) diagnostics_.error(Code::DuplicateName, "two inputs have this name", place);
  }
}

// Gives the symbols of an input the sizes of its data.
void Importer::take_sizes(Type* t) {
  const auto data = options_.contents(frame().graph->inputs().size(), t->kind);
  if (!data || t->kind != TypeKind::Tensor || data->dims.size() != t->dims.size()) return;
  for (size_t k = 0; k < t->dims.size(); ++k) {
    if (const auto name = symbol_name(dims(), t->dims[k])) bound_.try_emplace(*name, data->dims[k]);
    t->dims[k] = dims().bind(t->dims[k], bound_);
  }
}

// The words of --shape for an input; null if there are none.
const std::string* Importer::stated_shape(std::string_view input) const {
  const auto at = std::ranges::find(options_.shapes, input, &std::pair<std::string, std::string>::first);
  return at == options_.shapes.end() ? nullptr : &at->second;
}

// The dims of a shape such as 2x3xseq; nullopt if it is malformed.
std::optional<std::vector<Dim>> Importer::read_shape(std::string_view words) {
  std::vector<Dim> shape;
  for (std::string_view rest = words; !rest.empty();) {
    const size_t cut = std::min(rest.find('x'), rest.size());
    const std::string_view word = rest.substr(0, cut);
    int64_t size = 0;
    const bool number = parse_number(word, &size);
    if (word.empty() || (number && (size < 0 || size > Dim::kMax))) return std::nullopt;
    shape.push_back(number ? Dim(size) : named_dim(word));
    rest.remove_prefix(std::min(cut + 1, rest.size()));
  }
  return shape;
}

// Gives the unnamed dims of a declared shape the sizes and names of --shape.
bool Importer::complete_shape(std::string_view name, const std::string& place, Type* t) {
  const std::string* const words = stated_shape(name);
  if (!words) return true;
  const auto stated = read_shape(*words);
  bool fits = stated && stated->size() == t->dims.size();
  for (size_t k = 0; fits && k < t->dims.size(); ++k) {
    const auto own = symbol_name(dims(), t->dims[k]);
    if (own && !model_dims_.contains(*own)) t->dims[k] = (*stated)[k];
    else fits = dims().equal(t->dims[k], (*stated)[k]);
  }
  if (!fits)
    diagnostics_.error(Code::BadShape, "it is declared " + text(*t, dims()) + ": " + quote(*words) + " does not fit", place,
                       "--shape gives the axes without a size or name theirs; --bind NAME=SIZE those with a name");
  return fits;
}

// Completes the type of an input by --shape, or by its data.
bool Importer::find_shape(std::string_view name, Type* t) {
  if (const std::string* words = stated_shape(name)) {
    const auto stated = read_shape(*words);
    if (stated) t->dims = *stated;
    return t->ranked = stated.has_value();
  }
  const auto data = options_.contents ? options_.contents(frame().graph->inputs().size(), t->kind) : std::nullopt;
  if (!data || data->dtype != t->dtype) return false;
  for (int64_t d : data->dims) t->dims.emplace_back(d);
  t->ranked = true;
  return true;
}

void Importer::main_outputs(const GraphInfo& info) {
  if (over_limit_) return;
  std::vector<ValueId> outputs;
  std::vector<Symbol> names;
  std::unordered_set<uint32_t> seen;
  for (Bytes b : info.outputs) {
    ValueInfoView view;
    if (!read_value_info(b, &view)) {
      diagnostics_.error(Code::NotAModel, "an output is malformed");
      continue;
    }
    const std::string place = "output " + quote(view.name);
    const Symbol s = symbol(view.name);
    const ValId v = lookup(s);
    if (!v.valid()) {
      diagnostics_.error(Code::UnknownName, "no node defines it", place);
      continue;
    }
    if (!seen.insert(s.raw).second) diagnostics_.error(Code::DuplicateName, "two outputs have this name", place);
    const ValueId id = materialise(v);
    for (const Diagnostic& item : local_.items()) diagnostics_.error(item.code, item.message, place);
    local_ = Diagnostics();
    if (!id.valid()) continue;
    outputs.push_back(id);
    names.push_back(s);
    if (const auto declared = view.has_type ? read_type(view.type, {}) : std::nullopt) reconcile(id, *declared, view.name, true);
  }
  if (info.outputs.empty()) diagnostics_.error(Code::BadGraph, "the model has no outputs");
  module_.main().set_outputs(outputs);
  for (size_t i = 0; i < names.size(); ++i) module_.main().set_output_name(i, names[i]);
}

namespace {

// Whether the size counts elements that only data tell: NonZero and its like define a symbol of it.
bool is_count(const Graph& g, DimTable& t, ValueId v, Dim size) {
  constexpr int kMostSteps = 1000;
  for (const std::string& symbol : t.symbols_of(size)) {
    const auto has = [&](ValueId o) {
      if (!o.valid() || g.type(o).kind != TypeKind::Tensor) return false;
      return std::ranges::any_of(g.type(o).dims,
                                 [&](Dim d) { return !d.is_static() && std::ranges::binary_search(t.symbols_of(d), symbol); });
    };
    ValueId from = v;
    for (int steps = 0; steps < kMostSteps; ++steps) {
      const auto operands = g.operands(g.def(from));
      const auto next = std::ranges::find_if(operands, has);
      if (next == operands.end()) break;
      from = *next;
    }
    const OpKind definer = g.op(g.def(from));
    if (definer == OpKind::NonZero || definer == OpKind::Unique || definer == OpKind::NonMaxSuppression) return true;
  }
  return false;
}

}  // namespace

// Reconciles a declared type with the inferred one. A declaration gives data-dependent dims their meaning, unless it fixes a
// count. An output of another type is an error; another shape, which old exporters leave behind, is a warning, and the computed
// one is used.
void Importer::reconcile(ValueId v, const Type& declared, std::string_view name, bool output) {
  const Type& have = frame().graph->type(v);
  const auto contradiction = [&](std::string_view why = "") {
    if (!output) return;
    const std::string message = "it is declared " + text(declared, dims()) + ", but computed as " + text(have, dims()) +
                                std::string(why),
                      place = "output " + quote(name);
    if (have.dtype != declared.dtype || have.kind != declared.kind) diagnostics_.error(Code::BadType, message, place);
    else diagnostics_.warning(Code::BadShape, message, place, "what is computed holds");
  };
  if (have.kind != declared.kind || have.dtype != declared.dtype || have.key != declared.key) return contradiction();
  if (!have.ranked || !declared.ranked) return;
  if (have.rank() != declared.rank()) return contradiction();
  for (size_t i = 0; i < have.dims.size(); ++i) {
    const Dim a = have.dims[i], b = declared.dims[i];
    // A symbol is at least 1, but data-dependent results may be empty.
    if (dims().equal(a, b) || (a == 0 && !b.is_static()) || (b == 0 && !is_of_inputs(a))) continue;
    if (dims().known_ne(a, b)) return contradiction();
    if (b.is_static() && !is_of_inputs(a) && is_count(*frame().graph, dims(), v, a)) {
      contradiction(": the data tell the size");
      continue;
    }
    const bool useful = is_of_inputs(b) && (!is_of_inputs(a) || b.is_static());
    if (useful && !dims().assume_equal(a, b)) return contradiction();
  }
}

void Importer::unknown_dim(std::string_view name) {
  std::vector<std::string_view> names;
  for (const auto& [known_name, order] : model_dims_) names.push_back(known_name);
  const auto close = closest(name, names);
  if (names.size() > 10) names.resize(10);
  const std::string help = close           ? "did you mean " + quote(*close) + "?"
                           : names.empty() ? "the model has no symbolic dimensions"
                                           : "it has " + join(names, ", ");
  diagnostics_.error(Code::BadBinding, "the model has no dimension " + quote(name), {}, help);
}

void Importer::assume_equal_sizes() {
  const auto size = [&](const std::string& side) -> std::optional<Dim> {
    int64_t number = 0;
    if (const auto [end, error] = std::from_chars(side.data(), side.data() + side.size(), number);
        error == std::errc() && end == side.data() + side.size() && number >= 0 && number <= Dim::kMax)
      return Dim(number);
    if (model_dims_.contains(side)) return named_dim(side);
    unknown_dim(side);
    return std::nullopt;
  };
  for (const auto& [a, b] : options_.assume) {
    const auto x = size(a), y = size(b);
    if (x && y && !dims().assume_equal(*x, *y))
      diagnostics_.error(Code::BadBinding, quote(a) + " cannot be equal to " + quote(b));
  }
}

void Importer::check_bindings() {
  for (const auto& [name, size] : options_.bind) {
    if (size < 0 || size > Dim::kMax)
      diagnostics_.error(Code::BadBinding, "size " + std::to_string(size) + " for " + quote(name) + " is out of range");
    if (!model_dims_.contains(name)) unknown_dim(name);
  }
}

// Bodies.

Graph* Importer::make_body(std::string_view name, std::vector<Frame::Capture>* captures, Graph* reuse,
                           const std::function<void()>& declare,
                           const std::function<std::optional<std::vector<ValueId>>()>& nodes) {
  const size_t errors = diagnostics_.errors();
  Graph& g = reuse ? *reuse : module_.graph(module_.make_graph(std::string(name)));
  const auto index = static_cast<uint16_t>(frames_.size());
  frames_.push_back(std::make_unique<Frame>(g, &local_));
  bool made = false;
  const std::string prefix = scopes_.back().prefix;
  if (enter(index, false, prefix, *scopes_.back().opsets)) {
    declare();
    for (const Frame::Capture& c : *captures) {
      frame().capture_of.emplace(c.outer.raw, frame().captures.size());
      const std::string_view capture_name = module_.bytes(vals_[c.outer.raw].name);
      frame().captures.push_back(
          {c.outer, frame().builder.input(fresh_name(capture_name.empty() ? "captured" : capture_name), type(c.outer))});
    }
    if (const auto outputs = nodes()) {
      g.set_outputs(*outputs);
      made = true;
    }
    *captures = frame().captures;
    leave();
  }
  frames_.pop_back();
  return made && local_.ok() && diagnostics_.errors() == errors ? &g : nullptr;
}

Graph* Importer::import_body(Bytes body, std::string_view name, std::span<const Type> types,
                             std::vector<Frame::Capture>* captures, Graph* reuse) {
  GraphInfo info;
  const auto declare = [&] {
    read_graph(body, &info);
    if (info.inputs.size() != types.size())
      local_.error(Code::BadGraph, "the body has " + std::to_string(info.inputs.size()) + " inputs, the node gives " +
                                       std::to_string(types.size()));
    for (size_t i = 0; i < types.size() && i < info.inputs.size(); ++i) {
      ValueInfoView view;
      read_value_info(info.inputs[i], &view);
      const ValId v = value(frame().builder.input(view.name, types[i]));
      frame().leaf_names.insert(symbol(view.name).raw);
      if (!bind(symbol(view.name), v)) local_.error(Code::DuplicateName, "the body defines " + quote(view.name) + " twice");
    }
  };
  return make_body(name, captures, reuse, declare, [&]() -> std::optional<std::vector<ValueId>> {
    if (local_.ok()) import_nodes(body, 1);
    std::vector<ValueId> outputs;
    for (size_t i = 0; i < info.outputs.size() && local_.ok() && !over_limit_; ++i) {
      ValueInfoView view;
      read_value_info(info.outputs[i], &view);
      const ValId v = lookup(symbol(view.name));
      if (!v.valid()) local_.error(Code::UnknownName, "the body does not define its output " + quote(view.name));
      else if (const ValueId id = materialise(v); id.valid()) outputs.push_back(id);
    }
    if (outputs.size() != info.outputs.size()) return std::nullopt;
    return outputs;
  });
}

Graph* Importer::build_body(std::string_view name, std::span<const Type> types, std::vector<Frame::Capture>* captures,
                            const std::function<std::vector<ValueId>(std::span<const ValueId>)>& nodes) {
  std::vector<ValueId> inputs;
  const auto declare = [&] {
    for (size_t i = 0; i < types.size(); ++i)
      inputs.push_back(frame().builder.input(fresh_name(std::string(name) + "_" + std::to_string(i)), types[i]));
  };
  return make_body(name, captures, nullptr, declare, [&]() -> std::optional<std::vector<ValueId>> {
    std::vector<ValueId> outputs = nodes(inputs);
    if (outputs.empty()) return std::nullopt;
    return outputs;
  });
}

std::vector<BodyInput> Importer::body_inputs(Bytes body) {
  std::vector<BodyInput> out;
  WireReader r(body);
  while (r.next()) {
    if (r.tag() != bytes_field(11)) continue;
    ValueInfoView view;
    const Bytes info = r.bytes();
    const bool read = read_value_info(info, &view) && view.has_type;
    const auto t = read ? read_type(view.type, "input " + quote(view.name)) : std::nullopt;
    if (!t) local_.error(Code::BadGraph, "input " + quote(view.name) + " of the body has no type");
    else out.push_back({std::string(view.name), *t});
  }
  return out;
}

void Importer::add_capture_inputs(Graph& g, std::span<const Frame::Capture> captures) {
  Builder b(g);
  std::unordered_set<uint32_t> names;
  for (NodeId n : g.inputs()) names.insert(g.value_name(g.result(n)).raw);
  for (const Frame::Capture& c : captures) {
    std::string name(module_.bytes(vals_[c.outer.raw].name));
    const std::string base = name;
    for (int i = 1; names.contains(module_.symbol(name).raw); ++i) name = base + "_" + std::to_string(i);
    names.insert(module_.symbol(name).raw);
    b.input(name, type(c.outer));
  }
}

std::vector<ValId> Importer::inline_body(Bytes body, std::span<const ValId> inputs) {
  const size_t errors = diagnostics_.errors();
  std::vector<ValId> out;
  if (!enter(scopes_.back().frame, false, scopes_.back().prefix, *scopes_.back().opsets)) return out;
  GraphInfo info;
  read_graph(body, &info);
  bool bound = info.inputs.size() == inputs.size();
  for (size_t i = 0; i < inputs.size() && bound; ++i) {
    ValueInfoView view;
    bound = read_value_info(info.inputs[i], &view) && bind(symbol(view.name), inputs[i]);
  }
  if (!bound) local_.error(Code::BadGraph, "the body must have " + std::to_string(inputs.size()) + " inputs of different names");
  else import_nodes(body, 1);
  for (size_t i = 0; i < info.outputs.size() && !over_limit_; ++i) {
    ValueInfoView view;
    read_value_info(info.outputs[i], &view);
    const ValId v = lookup(symbol(view.name));
    if (!v.valid()) local_.error(Code::UnknownName, "the body does not define its output " + quote(view.name));
    out.push_back(v);
  }
  leave();
  if (diagnostics_.errors() != errors || !local_.ok()) out.clear();
  return out;
}

// Entry points.

namespace {

std::unique_ptr<Module> import_model(const std::shared_ptr<const MappedFile>& file, bool on_disk, const ModelView& model,
                                     const ImportOptions& options, Diagnostics& d) {
  const size_t errors = d.errors(), name = file->path().rfind('/') + 1;
  TensorSource source(file, name == 0 ? "." : file->path().substr(0, name), on_disk ? file->path().substr(name) : "",
                      options.missing_weights);
  auto module = std::make_unique<Module>();
  Importer importer(*module, source, model, options, d);
  importer.run();
  source.report_missing(d);
  return d.errors() == errors ? std::move(module) : nullptr;
}

std::unique_ptr<Module> import_file(const std::shared_ptr<const MappedFile>& file, bool on_disk, const ImportOptions& options,
                                    Diagnostics& d) {
  if (file->size() == 0) {
    d.error(Code::NotAModel, "the file is empty", quote(file->path()));
    return nullptr;
  }
  ModelView model;
  if (!read_model(file->bytes(), &model) || model.graphs != 1) {
    const bool some = model.ir_version > 0 || model.graphs > 0;
    d.error(Code::NotAModel,
            model.graphs > 1 ? "it holds several graphs"
            : some           ? "the file is cut short or damaged"
                             : "it is not an ONNX model",
            quote(file->path()));
    return nullptr;
  }
  const Diagnostics before = d;
  auto module = import_model(file, on_disk, model, options, d);
  if (module || !options.contents || options.constant_contents) return module;
  // Sizes may be computed from the promised contents, or have to be constant.
  ImportOptions constant = options;
  constant.constant_contents = true;
  Diagnostics second = before;
  module = import_model(file, on_disk, model, constant, second);
  if (!module) {
    constant.constant_sizes = true;
    second = before;
    module = import_model(file, on_disk, model, constant, second);
    if (module) second.warning(Code::UnboundDim, "shapes depend on the sizes of inputs: the program is for the given ones only");
  }
  if (module) d = std::move(second);
  return module;
}

}  // namespace

std::unique_ptr<Module> import_onnx(const std::string& path, const ImportOptions& options, Diagnostics& d) {
  auto mapped = open_model_file(path, d);
  return mapped ? import_file(std::make_shared<const MappedFile>(std::move(*mapped)), true, options, d) : nullptr;
}

std::unique_ptr<Module> import_onnx(std::shared_ptr<const MappedFile> file, const ImportOptions& options, Diagnostics& d) {
  return import_file(file, false, options, d);
}

}  // namespace rlxc::onnx_import
