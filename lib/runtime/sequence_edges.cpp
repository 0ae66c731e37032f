#include "runtime/sequence_edges.h"

#include <algorithm>

#include "ir/builder.h"
#include "ir/infer.h"

namespace rlxc {
namespace {

using eval::HostValue;

bool is_holder(TypeKind k) { return k == TypeKind::Sequence || k == TypeKind::Optional; }

// Returns whether it consists of tensors, sequences and optionals of numbers.
bool is_plain(const HostValue& v) {
  if (v.kind == TypeKind::Tensor) return v.tensor.dtype != DType::String;
  return is_holder(v.kind) && std::ranges::all_of(v.items, is_plain);
}

bool same_form(const HostValue& a, const HostValue& b) {
  if (a.kind != b.kind) return false;
  if (a.kind == TypeKind::Tensor) return a.tensor.dtype == b.tensor.dtype && a.tensor.dims == b.tensor.dims;
  return std::ranges::equal(a.items, b.items, same_form);
}

bool same_forms(const std::vector<HostValue>& a, const std::vector<HostValue>& b, const std::vector<TypeKind>& kinds) {
  for (size_t i = 0; i < kinds.size(); ++i)
    if (is_holder(kinds[i]) && !same_form(a[i], b[i])) return false;
  return true;
}

// The tensors of a value, in order.
void flatten(const HostValue& v, std::vector<HostValue>* out) {
  if (v.kind == TypeKind::Tensor) out->push_back(v);
  for (const HostValue& item : v.items) flatten(item, out);
}

std::vector<TypeKind> kinds_of(const Graph& g, const std::vector<ValueId>& values) {
  std::vector<TypeKind> kinds;
  for (ValueId v : values) kinds.push_back(g.type(v).kind);
  return kinds;
}

Type type_of_form(const HostValue& v) {
  return tensor_type(v.tensor.dtype, std::vector<Dim>(v.tensor.dims.begin(), v.tensor.dims.end()));
}

class Rewriter {
 public:
  explicit Rewriter(Graph& g) : g_(g), b_(g) {}

  // An input of a sequence or optional, as a value of new inputs.
  void input(NodeId old, const HostValue& form) {
    const ValueId from = g_.result(old);
    b_.insert_before(first_use());
    made_ = 0;
    name_ = g_.module().bytes(g_.value_name(from));
    std::vector<ValueId> tensors;
    add_inputs(form, &tensors);
    auto next = tensors.begin();
    const ValueId to = holder(form, g_.type(from), &next);
    g_.replace_all_uses(from, to);
    g_.remove_input(old);
    g_.erase(old);
  }

  // Infers the types of sequences and optionals again: what is made of inputs is known more exactly now.
  void retype() {
    Module& m = g_.module();
    for (NodeId n : g_.nodes()) {
      std::vector<const Type*> types;
      bool any = false;
      for (ValueId v : g_.operands(n)) {
        types.push_back(v.valid() ? &g_.type(v) : nullptr);
        any |= v.valid() && is_holder(g_.type(v).kind);
      }
      std::string ignored;
      const auto results = any ? infer(m, g_.op(n), m.attrs[g_.attr_id(n)], types, g_.bodies(n).copy(), &ignored) : std::nullopt;
      for (size_t r = 0; results && r < g_.result_count(n); ++r)
        if (is_holder(g_.type(g_.result(n, r)).kind)) g_.set_type(g_.result(n, r), m.types.intern((*results)[r]));
    }
  }

  // Appends what an output consists of: its elements, and before them their number or whether there is one.
  void output(ValueId v, const HostValue& form, std::vector<ValueId>* out) {
    b_.insert_before({});
    if (form.kind == TypeKind::Tensor) return out->push_back(v);
    if (form.kind == TypeKind::Optional) {
      out->push_back(b_.create(OpKind::OptionalHas, {v}));
      if (!form.items.empty())
        output(read(OpKind::OptionalGet, {v}, form.items[0], element_type(g_.type(v))), form.items[0], out);
      return;
    }
    out->push_back(b_.create(OpKind::SequenceLength, {v}));
    for (size_t i = 0; i < form.items.size(); ++i) {
      const ValueId at = b_.scalar(DType::I64, static_cast<double>(i));
      out->push_back(read(OpKind::SequenceAt, {v, at}, form.items[i], {}));
    }
  }

 private:
  NodeId first_use() const {
    for (NodeId n : g_.nodes())
      if (!has_trait(g_.op(n), kLeaf)) return n;
    return {};
  }

  void add_inputs(const HostValue& form, std::vector<ValueId>* out) {
    if (form.kind == TypeKind::Tensor) {
      out->push_back(b_.input(name_ + "_" + std::to_string(made_++), type_of_form(form)));
      if (const NodeId n = first_use(); n.valid()) g_.move_before(g_.def(out->back()), n);
    }
    for (const HostValue& item : form.items) add_inputs(item, out);
  }

  ValueId holder(const HostValue& form, const Type& type, std::vector<ValueId>::iterator* next) {
    if (form.kind == TypeKind::Tensor) return *(*next)++;
    if (form.kind == TypeKind::Optional) {
      const OptionalAttrs a{type.dtype, type.of_sequence};
      if (form.items.empty()) return b_.create(OpKind::OptionalMake, std::span<const ValueId>{}, a);
      return b_.create(OpKind::OptionalMake, {holder(form.items[0], element_type(type), next)}, a);
    }
    ValueId v = b_.create(OpKind::SequenceEmpty, std::span<const ValueId>{}, CastAttrs{type.dtype, true});
    for (const HostValue& item : form.items) v = b_.create(OpKind::SequenceInsert, {v, holder(item, element_type(type), next)});
    return v;
  }

  // A read of the type that the form tells, which may say more than the sequence's.
  ValueId read(OpKind op, std::vector<ValueId> operands, const HostValue& form, Type type) {
    if (form.kind == TypeKind::Tensor) type = type_of_form(form);
    Module& m = g_.module();
    const TypeId types[] = {m.types.intern(type)};
    return g_.result(g_.make_node(op, operands, m.attrs.intern(default_attrs(op)), types));
  }

  Graph& g_;
  Builder b_;
  std::string name_;
  int made_ = 0;
};

// Takes a value of this form from the front.
HostValue take(const HostValue& form, std::vector<HostValue>::iterator* next) {
  if (form.kind == TypeKind::Tensor) return std::move(*(*next)++);
  HostValue v;
  v.kind = form.kind;
  const int64_t count = element_as_int(((*next)++)->tensor, 0);
  for (const HostValue& item : form.items) v.items.push_back(take(item, next));
  if (count < static_cast<int64_t>(v.items.size())) v.items.resize(static_cast<size_t>(std::max<int64_t>(count, 0)));
  while (count > static_cast<int64_t>(v.items.size()) && v.items.size() <= form.items.size()) v.items.emplace_back();  // unequal
  return v;
}

}  // namespace

SequenceEdges SequenceEdges::apply(Module& m, std::vector<DataSet>* sets) {
  Graph& g = m.main();
  std::vector<NodeId> inputs(g.inputs().begin(), g.inputs().end());
  std::vector<ValueId> input_values;
  for (NodeId n : inputs) input_values.push_back(g.result(n));
  const std::vector<ValueId> outputs(g.outputs().begin(), g.outputs().end());
  const std::vector<TypeKind> in = kinds_of(g, input_values), out = kinds_of(g, outputs);
  SequenceEdges edges;
  if (sets->empty() || (std::ranges::none_of(in, is_holder) && std::ranges::none_of(out, is_holder))) return edges;
  const DataSet& first = sets->front();
  for (const DataSet& s : *sets)
    if (s.inputs.size() != in.size() || s.expected.size() != out.size() || !s.missing.empty() ||
        !same_forms(s.inputs, first.inputs, in) || !same_forms(s.expected, first.expected, out) ||
        !std::ranges::all_of(s.inputs, is_plain) || !std::ranges::all_of(s.expected, is_plain))
      return edges;
  edges.outputs_ = first.expected;
  Rewriter rewriter(g);
  for (size_t i = 0; i < inputs.size(); ++i)
    if (is_holder(in[i])) rewriter.input(inputs[i], first.inputs[i]);
  rewriter.retype();
  std::vector<ValueId> flat;
  std::vector<std::string> names;
  for (size_t i = 0; i < out.size(); ++i) {
    const std::string name(m.bytes(g.output_name(i)));
    if (is_holder(out[i])) rewriter.output(g.outputs()[i], first.expected[i], &flat);
    else flat.push_back(g.outputs()[i]);
    while (names.size() < flat.size()) names.push_back(is_holder(out[i]) ? name + "_" + std::to_string(names.size()) : name);
  }
  g.set_outputs(flat);
  for (size_t i = 0; i < flat.size(); ++i) g.set_output_name(i, m.symbol(names[i]));
  for (DataSet& s : *sets) {
    std::vector<HostValue> tensors;
    for (size_t i = 0; i < in.size(); ++i)
      if (!is_holder(in[i])) tensors.push_back(std::move(s.inputs[i]));
    for (size_t i = 0; i < in.size(); ++i)
      if (is_holder(in[i])) flatten(s.inputs[i], &tensors);
    s.inputs = std::move(tensors);
  }
  return edges;
}

std::vector<HostValue> SequenceEdges::nested(std::vector<HostValue> flat) const {
  std::vector<HostValue> all;
  auto next = flat.begin();
  for (const HostValue& form : outputs_) all.push_back(take(form, &next));
  return all;
}

}  // namespace rlxc
