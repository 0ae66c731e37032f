// Reductions along axes.
#include <array>
#include <numeric>

#include "import/onnx/dynamic.h"
#include "import/onnx/handlers.h"

namespace rlxc::onnx_import {

// Axes: an attribute up to opset 17 (ReduceSum: 12), then an operand. No axes: all, unless noop_with_empty_axes.
void reduce(Op& op) {
  const auto how = static_cast<ReduceOp>(static_cast<int>(op.row.alpha));
  const bool keep = op.i("keepdims", 1) != 0;
  // An empty list, which reduces all, is told by the length.
  if (op.is_of_run(1) && (op.rank(1) == 0 || op.dims().constant_value(op.sizes(1)[0]).value_or(0) > 0))
    return reduce_by_data(op, how, keep);
  auto list = op.ints_or_input("axes", 1);
  if (op.failed()) return;
  const int rank = op.rank(0);
  if (!list || list->empty()) {
    if (op.i("noop_with_empty_axes", 0) != 0) {
      switch (how) {  // reduces each element by itself
        case ReduceOp::L1:
        case ReduceOp::L2: return op.set(0, op.b.unary(OpKind::Abs, op.in(0)));
        case ReduceOp::LogSum: return op.set(0, op.b.unary(OpKind::Log, op.in(0)));
        case ReduceOp::SumSquare: return op.set(0, op.b.mul(op.in(0), op.in(0)));
        default: return op.set_ref(0, op.ref(0));
      }
    }
    list.emplace(static_cast<size_t>(rank));
    std::iota(list->begin(), list->end(), 0);
  }
  const auto axes = op.axes(*list, rank);
  if (!axes) return;
  if (op.dtype(0) == DType::Bool) {  // max is or, min is and
    const ValueId r = op.b.reduce(how, op.b.cast(op.in(0), DType::U8), *axes, keep);
    return op.set(0, op.b.cast(r, DType::Bool));
  }
  op.set(0, op.b.reduce(how, op.in(0), *axes, keep));
}

void arg_reduce(Op& op) {
  const auto axis = op.axis(op.i("axis", 0), op.rank(0));
  if (!axis) return;
  const ArgAttrs a{*axis, op.row.alpha > 0, op.i("keepdims", 1) != 0, op.i("select_last_index", 0) != 0};
  op.set(0, op.b.create(OpKind::ArgReduce, {op.in(0)}, a));
}

void cumsum(Op& op) {
  CumAttrs a{0, op.i("exclusive", 0) != 0, op.i("reverse", 0) != 0};
  if (op.is_of_run(1)) return cumulate_by_data(op, a);
  const auto axes = op.need_ints(1, "axis");
  if (!axes) return;
  if (axes->size() != 1) return (void)op.fail(Code::BadShape, "the axis must be one number");
  const auto axis = op.axis((*axes)[0], op.rank(0));
  if (!axis) return;
  a.axis = *axis;
  op.set(0, op.b.create(op.row.kind, {op.in(0)}, a));
}

void topk(Op& op) {
  const auto axis = op.axis(op.i("axis", -1), op.rank(0));
  if (!axis) return;
  TopKAttrs a;
  a.axis = *axis;
  a.largest = op.i("largest", 1) != 0;
  a.sorted = op.i("sorted", 1) != 0;
  if (op.opset >= 10) {
    const auto k = op.find_dims(1);
    if (!k) return top_k_by_data(op, a);
    if (k->size() != 1) return (void)op.fail(Code::BadShape, "k must be one number");
    a.k = (*k)[0];
  } else {
    a.k = op.dims().constant(op.i("k", -1));
  }
  const NodeId n = op.b.create_node(OpKind::TopK, std::array{op.in(0)}, a);
  if (!n.valid()) return;
  op.set(0, op.graph().result(n, 0));
  op.set(1, op.graph().result(n, 1));
}

// Up to opset 12: over all axes from `axis` on, collapsed.
void softmax(Op& op) {
  const auto axis = op.axis(op.i("axis", op.opset < 13 ? 1 : -1), op.rank(0));
  if (!axis) return;
  if (op.opset >= 13 || *axis == op.rank(0) - 1) return op.set(0, op.b.create(op.row.kind, {op.in(0)}, AxisAttrs{*axis}));
  const std::vector<Dim> d = op.sizes(0);
  std::vector<Dim> flat(d.begin(), d.begin() + *axis);
  flat.push_back(op.dims().product({d.begin() + *axis, d.end()}));
  const ValueId y = op.b.create(op.row.kind, {op.b.reshape(op.in(0), std::move(flat))}, AxisAttrs{*axis});
  op.set(0, op.b.reshape(y, d));
}

}  // namespace rlxc::onnx_import
