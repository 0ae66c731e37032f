#include "ir/builder.h"

#include <algorithm>
#include <cstring>

#include "ir/infer.h"

namespace rlxc {

ValueId Builder::create(OpKind op, std::span<const ValueId> operands, Attrs attrs) {
  const NodeId n = create_node(op, operands, std::move(attrs));
  return n.valid() ? graph_.result(n) : ValueId();
}

ValueId Builder::create(OpKind op, std::initializer_list<ValueId> operands, Attrs attrs) {
  return create(op, std::span(operands.begin(), operands.size()), std::move(attrs));
}

ValueId Builder::create(OpKind op, std::initializer_list<ValueId> operands) { return create(op, operands, default_attrs(op)); }

NodeId Builder::create_node(OpKind op, std::span<const ValueId> operands, Attrs attrs, std::span<const GraphId> bodies) {
  error_.clear();
  while (!operands.empty() && !operands.back().valid()) operands = operands.first(operands.size() - 1);
  operand_types_.clear();
  for (ValueId v : operands) operand_types_.push_back(v.valid() ? &graph_.type(v) : nullptr);
  auto results = infer(module(), op, attrs, operand_types_, bodies, &error_);
  if (!results) {
    if (diagnostics_) diagnostics_->error(Code::BadShape, std::string(name(op)) + ": " + error_);
    return {};
  }
  result_types_.clear();
  for (const Type& t : *results) result_types_.push_back(module().types.intern(t));
  const NodeId n = graph_.make_node(op, operands, module().attrs.intern(std::move(attrs)), result_types_, bodies, before_);
  if (name_.valid()) graph_.set_node_name(n, name_);
  return n;
}

ValueId Builder::input(std::string_view value_name, Type type) {
  const TypeId t = module().types.intern(type);
  const NodeId n = graph_.make_node(OpKind::Input, {}, module().attrs.intern(NoAttrs{}), {&t, 1});
  graph_.set_value_name(graph_.result(n), module().symbol(value_name));
  return graph_.result(n);
}

ValueId Builder::param(std::string_view value_name, Type type, DataId data) {
  const TypeId t = module().types.intern(type);
  const NodeId n = graph_.make_node(OpKind::Param, {}, module().attrs.intern(DataAttrs{data}), {&t, 1}, {}, before_);
  graph_.set_value_name(graph_.result(n), module().symbol(value_name));
  return graph_.result(n);
}

ValueId Builder::constant(TensorData data) {
  std::vector<Dim> dims(data.dims.begin(), data.dims.end());
  const TypeId t = module().types.tensor(data.dtype, std::move(dims));
  const AttrId a = module().attrs.intern(DataAttrs{module().data.add(std::move(data))});
  return graph_.result(graph_.make_node(OpKind::Constant, {}, a, {&t, 1}, {}, before_));
}

ValueId Builder::scalar(DType t, double v) { return constant(make_data(t, {}, element_bytes(t, v))); }

ValueId Builder::ints(std::vector<int64_t> values) {
  const auto n = static_cast<int64_t>(values.size());
  return constant(make_data(DType::I64, {n}, values));
}

ValueId Builder::cast(ValueId x, DType to) {
  if (!x.valid() || graph_.dtype(x) == to) return x;
  return create(OpKind::Cast, {x}, CastAttrs{to, true});
}

ValueId Builder::reshape(ValueId x, std::vector<Dim> sizes) {
  if (x.valid() && std::ranges::equal(graph_.dims(x), sizes)) return x;
  return create(OpKind::Reshape, {x}, DimsAttrs{std::move(sizes), false});
}

ValueId Builder::transpose(ValueId x, std::vector<int64_t> perm) {
  if (std::ranges::is_sorted(perm)) return x;
  return create(OpKind::Transpose, {x}, PermAttrs{std::move(perm)});
}

ValueId Builder::expand(ValueId x, std::vector<Dim> sizes) {
  if (x.valid() && std::ranges::equal(graph_.dims(x), sizes)) return x;
  return create(OpKind::Expand, {x}, DimsAttrs{std::move(sizes), false});
}

ValueId Builder::narrow(ValueId x, int64_t axis, Dim start, Dim len) {
  return create(OpKind::Narrow, {x}, NarrowAttrs{axis, start, len});
}

ValueId Builder::concat(std::span<const ValueId> parts, int64_t axis) { return create(OpKind::Concat, parts, AxisAttrs{axis}); }

ValueId Builder::reduce(ReduceOp op, ValueId x, std::vector<int64_t> axes, bool keep_dim) {
  return create(OpKind::Reduce, {x}, ReduceAttrs{op, std::move(axes), keep_dim});
}

}  // namespace rlxc
