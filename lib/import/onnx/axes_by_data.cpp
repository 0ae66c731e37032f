// Operators whose axes are known at run time only. The rank is known: the list of axes is compared with each axis of the operand.
// An If computes ops that take the axis as an attribute.
#include <algorithm>
#include <array>
#include <functional>

#include "import/onnx/dynamic.h"
#include "import/onnx/handlers.h"

namespace rlxc::onnx_import {
namespace {

using Step = std::function<ValueId(Builder&, ValueId x, int64_t axis)>;

// Input i, a scalar or a vector, as an i64 vector.
ValueId vector_of(Op& op, size_t i) {
  return op.b.cast(op.rank(i) == 1 ? op.in(i) : op.b.reshape(op.in(i), {Dim(1)}), DType::I64);
}

// Input i as an i64 vector, without negative axes.
ValueId axes_from_front(Op& op, size_t i, int rank) {
  const ValueId axes = vector_of(op, i);
  const ValueId is_back = op.b.create(OpKind::Lt, {axes, number(op, 0)});
  return op.b.create(OpKind::Where, {is_back, op.b.add(axes, number(op, rank)), axes});
}

ValueId sum_of(Op& op, ValueId vector) { return op.b.reduce(ReduceOp::Sum, vector, {0}, false); }

// 1 where the list names the axis.
ValueId places_of(Op& op, ValueId axes, int64_t axis) {
  return op.b.cast(op.b.create(OpKind::Eq, {axes, number(op, axis)}), DType::I64);
}

// By axis, how often the list names it, as an i64 vector.
ValueId namings(Op& op, ValueId axes, int rank) {
  std::vector<ValueId> counts;
  for (int axis = 0; axis < rank; ++axis) counts.push_back(op.b.reshape(sum_of(op, places_of(op, axes, axis)), {Dim(1)}));
  return op.b.concat(counts, 0);
}

ValueId sizes_of(Op& op, ValueId v) {
  const auto d = op.graph().dims(v);
  return op.b.create(OpKind::DimValue, {}, DimsAttrs{{d.begin(), d.end()}, false});
}

// make(x, axis) if `named` is not 0, else x.
ValueId made_if_named(Op& op, ValueId named, ValueId x, int64_t axis, const Step& make) {
  if (!named.valid() || !x.valid()) return {};
  const std::array types{op.graph().type(x)};
  const std::string name(op.node().name.empty() ? op.node().op_type : op.node().name);
  std::vector<GraphId> bodies;
  for (const bool is_named : {true, false}) {
    std::vector<Frame::Capture> none;
    const Graph* body = op.im.build_body(name + "." + (is_named ? "along_" : "not_along_") + std::to_string(axis), types, &none,
                                         [&](std::span<const ValueId> in) {
                                           const ValueId y = is_named ? make(op.im.frame().builder, in[0], axis) : in[0];
                                           return y.valid() ? std::vector{y} : std::vector<ValueId>();
                                         });
    if (!body) return {};
    bodies.push_back(body->id());
  }
  const ValueId condition = op.b.create(OpKind::Gt, {named, number(op, 0)});
  const NodeId n = op.b.create_node(OpKind::If, std::array{condition, x}, IfAttrs{}, bodies);
  return n.valid() ? op.graph().result(n) : ValueId();
}

// Makes one step along each axis that the list names.
ValueId along_named(Op& op, ValueId x, ValueId axes, int count, const Step& make) {
  for (int axis = 0; axis < count && x.valid(); ++axis)
    x = made_if_named(op, sum_of(op, places_of(op, axes, axis)), x, axis, make);
  return x;
}

// Number of listed axes. Without a length that is known or follows from the declared result, it is an error.
std::optional<int64_t> number_of_axes(Op& op, std::optional<int64_t> by_rank) {
  if (op.rank(1) == 0) return 1;
  if (const auto n = op.dims().constant_value(op.sizes(1)[0])) return n;
  if (by_rank && *by_rank >= 0 && op.dims().need_equal(op.sizes(1)[0], Dim(*by_rank))) return by_rank;
  op.fail(Code::UnsupportedAttribute, "the number of axes is only known at run time, and the rank of the result with it",
          kValueHelp);
  return std::nullopt;
}

// Drops the axes, which have one slice each, that `named` counts.
ValueId without_axes(Op& op, ValueId x, ValueId named, int64_t rank) {
  if (!x.valid() || !named.valid()) return {};
  const int all = op.graph().rank(x);
  std::vector<int64_t> order(static_cast<size_t>(all));
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  const ValueId place = op.b.add(op.b.ints(std::move(order)), op.b.mul(named, number(op, all)));  // those that stay come first
  const NodeId first = op.b.create_node(OpKind::TopK, std::array{place}, TopKAttrs{Dim(rank), 0, false, true});
  if (!first.valid()) return {};
  const ValueId sizes = op.b.create(OpKind::Gather, {sizes_of(op, x), op.graph().result(first, 1)}, AxisAttrs{0});
  return op.b.create(OpKind::ReshapeTo, {x, sizes}, ReshapeToAttrs{true});
}

}  // namespace

void reduce_by_data(Op& op, ReduceOp how, bool keep) {
  const int rank = op.rank(0);
  int64_t count = 0;  // of axes, where it decides the rank of the result
  if (!keep) {
    const auto given = number_of_axes(op, op.declared_rank(0) ? std::optional(rank - *op.declared_rank(0)) : std::nullopt);
    if (op.failed()) return;
    count = given.value_or(0);
  }
  if (count > rank) return (void)op.fail(Code::BadShape, "there are more axes than " + op.show(0) + " has");
  const ValueId axes = axes_from_front(op, 1, rank);
  // Axis by axis, the elements are prepared and finished apart from the sums.
  ValueId x = op.in(0);
  ReduceOp part = how;
  std::optional<OpKind> finish;
  if (op.dtype(0) == DType::Bool) x = op.b.cast(x, DType::U8);
  if (how == ReduceOp::L1) x = op.b.unary(OpKind::Abs, x);
  if (how == ReduceOp::L2 || how == ReduceOp::SumSquare) x = op.b.mul(x, x);
  if (how == ReduceOp::L1 || how == ReduceOp::L2 || how == ReduceOp::SumSquare || how == ReduceOp::LogSum) part = ReduceOp::Sum;
  if (how == ReduceOp::L2) finish = OpKind::Sqrt;
  if (how == ReduceOp::LogSum) finish = OpKind::Log;
  x = along_named(op, x, axes, rank, [&](Builder& b, ValueId v, int64_t axis) { return b.reduce(part, v, {axis}, true); });
  if (!x.valid()) return;
  if (finish) x = op.b.unary(*finish, x);
  if (op.dtype(0) == DType::Bool) x = op.b.cast(x, DType::Bool);
  op.set(0, keep ? x : without_axes(op, x, namings(op, axes, rank), rank - count));
}

void cumulate_by_data(Op& op, CumAttrs a) {
  const int rank = op.rank(0);
  op.set(0, along_named(op, op.in(0), axes_from_front(op, 1, rank), rank, [&](Builder& b, ValueId v, int64_t axis) {
           a.axis = axis;
           return b.create(op.row.kind, {v}, a);
         }));
}

void squeeze_by_data(Op& op) {
  const int rank = op.rank(0);
  const auto count = number_of_axes(op, op.declared_rank(0) ? std::optional(rank - *op.declared_rank(0)) : std::nullopt);
  if (!count) return;
  if (*count > rank) return (void)op.fail(Code::BadShape, "there are more axes than " + op.show(0) + " has");
  op.set(0, without_axes(op, op.in(0), namings(op, axes_from_front(op, 1, rank), rank), rank - *count));
}

void unsqueeze_by_data(Op& op) {
  const auto count = number_of_axes(op, op.declared_rank(0) ? std::optional(*op.declared_rank(0) - op.rank(0)) : std::nullopt);
  if (!count) return;
  const int rank = op.rank(0) + static_cast<int>(*count);
  if (rank > 64) return (void)op.fail(Code::TooLarge, "the rank is more than 64");
  if (op.rank(0) == 0) return op.set(0, op.b.reshape(op.in(0), std::vector<Dim>(static_cast<size_t>(rank), Dim(1))));
  const ValueId added = namings(op, axes_from_front(op, 1, rank), rank), one = number(op, 1);
  const ValueId old = op.b.sub(op.b.create(OpKind::Cumsum, {op.b.sub(one, added)}, CumAttrs{0}), one);
  const ValueId from = op.b.create(OpKind::Max, {old, number(op, 0)});
  const ValueId sizes = op.b.create(OpKind::Gather, {sizes_of(op, op.in(0)), from}, AxisAttrs{0});
  const ValueId is_added = op.b.create(OpKind::Gt, {added, number(op, 0)});
  op.set(0, op.b.create(OpKind::ReshapeTo, {op.in(0), op.b.create(OpKind::Where, {is_added, one, sizes})}, ReshapeToAttrs{true}));
}

// Each axis is cut at the start and end of the entry that names it.
void slice_along_data(Op& op) {
  const int rank = op.rank(0);
  if (op.has(4)) {
    const auto steps = op.need_ints(4, "steps");
    if (!steps) return;
    if (!std::ranges::all_of(*steps, [](int64_t s) { return s == 1; }))
      return (void)op.fail(Code::UnsupportedAttribute, "the axes must be constant where steps are not 1", kValueHelp);
  }
  const ValueId axes = axes_from_front(op, 3, rank);
  const ValueId starts = vector_of(op, 1), ends = vector_of(op, 2);
  ValueId x = op.in(0);
  for (int axis = 0; axis < rank && x.valid(); ++axis) {
    const ValueId at = places_of(op, axes, axis);
    const ValueId is_named = op.b.create(OpKind::Gt, {sum_of(op, at), number(op, 0)});
    const ValueId start = sum_of(op, op.b.mul(starts, at)), end = sum_of(op, op.b.mul(ends, at));
    x = slice_by_data(op, x, axis, start, op.b.create(OpKind::Where, {is_named, end, number(op, Dim::kMax)}), 0, 1);
  }
  op.set(0, x);
}

void transform_by_data(Op& op, FftAttrs a) {
  const int count = op.rank(0) - 1;
  const auto parts = op.dims().constant_value(op.sizes(0).back());
  if (!parts || (a.inverse && a.onesided))
    return (void)op.fail(Code::UnsupportedAttribute, "the axis must be constant where the result is real", kValueHelp);
  ValueId x = op.in(0);
  if (*parts == 1 && count > 0) x = op.b.concat(std::array{x, op.b.mul(x, op.b.scalar(op.dtype(0), 0))}, count);
  op.set(0, along_named(op, x, axes_from_front(op, 2, op.rank(0)), count, [&](Builder& b, ValueId v, int64_t axis) {
           a.axis = axis;
           return b.create(OpKind::Fft, {v}, a);
         }));
}

}  // namespace rlxc::onnx_import
