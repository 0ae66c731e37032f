// Operators with data-dependent result sizes. The size enters the graph through Iota, followed by gathers with computed indices.
// Except for TopK, every use of the size is thereby a use of the value.
#include "import/onnx/dynamic.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "import/onnx/broadcast.h"
#include "import/onnx/handlers.h"

namespace rlxc::onnx_import {
namespace {

ValueId size_value(Op& op, Dim d) {
  if (const auto v = op.dims().constant_value(d)) return number(op, *v);
  return op.b.create(OpKind::DimValue, {}, DimsAttrs{{d}, true});
}

// Returns element `i` of an integer vector as an i64 scalar.
ValueId element(Op& op, ValueId vector, int64_t i) {
  if (vector.valid() && op.graph().rank(vector) == 0) return op.b.cast(vector, DType::I64);
  return op.b.cast(op.b.reshape(op.b.narrow(vector, 0, Dim(i), Dim(1)), {}), DType::I64);
}

ValueId at_least(Op& op, ValueId v, ValueId bound) { return op.b.create(OpKind::Max, {v, bound}); }
ValueId at_most(Op& op, ValueId v, ValueId bound) { return op.b.create(OpKind::Min, {v, bound}); }

}  // namespace

ValueId number(Op& op, int64_t v) { return op.b.scalar(DType::I64, static_cast<double>(v)); }

std::optional<Dim> known_element(Op& op, ValueId vector, int64_t i) {
  const Graph& g = op.graph();
  while (vector.valid() && g.rank(vector) <= 1) {
    if (const TensorData* t = op.im.contents(vector); t && i < t->elements()) {
      const double v = element_as_double(*t, i);
      return v == std::trunc(v) && std::fabs(v) < 1e15 ? std::optional(op.dims().constant(static_cast<int64_t>(v)))
                                                       : std::nullopt;
    }
    const NodeId n = g.def(vector);
    if (g.op(n) == OpKind::DimValue) {
      const auto& stated = g.attrs<DimsAttrs>(n).dims;
      return i < std::ssize(stated) ? std::optional(stated[static_cast<size_t>(i)]) : std::nullopt;
    }
    if (g.op(n) == OpKind::Cast || g.op(n) == OpKind::Reshape) {
      vector = g.operand(n, 0);
      continue;
    }
    if (g.op(n) != OpKind::Concat) return std::nullopt;
    ValueId part;
    for (ValueId o : g.operands(n)) {
      const auto length = op.dims().constant_value(g.dims(o)[0]);
      if (!length) return std::nullopt;
      if (i < *length) {
        part = o;
        break;
      }
      i -= *length;
    }
    vector = part;
  }
  return std::nullopt;
}

std::optional<int64_t> constant_element(Op& op, ValueId vector, int64_t i) {
  const auto d = known_element(op, vector, i);
  return d ? op.dims().constant_value(*d) : std::nullopt;
}

ValueId iota(Op& op, ValueId n) { return op.b.unary(OpKind::Iota, op.b.reshape(op.b.cast(n, DType::I64), {})); }

ValueId broadcast_to(Op& op, ValueId x, ValueId sizes, int64_t count) {
  if (!x.valid() || !sizes.valid()) return {};
  std::vector<Dim> have(op.graph().dims(x).begin(), op.graph().dims(x).end());
  while (static_cast<int64_t>(have.size()) < count) have.insert(have.begin(), Dim(1));
  x = op.b.reshape(x, have);
  const auto skip = static_cast<int64_t>(have.size()) - count;
  for (int64_t i = 0; i < count && x.valid(); ++i) {
    const int64_t axis = skip + i;
    const Dim size = have[static_cast<size_t>(axis)];
    if (const auto to = constant_element(op, sizes, i)) {
      if (*to < 0) {
        op.fail(Code::BadShape, "size " + std::to_string(*to) + " is negative");
        return ValueId();
      }
      if (*to == 1 || size == Dim(*to)) continue;
      if (size == Dim(1)) {
        std::vector<Dim> d(op.graph().dims(x).begin(), op.graph().dims(x).end());
        d[static_cast<size_t>(axis)] = Dim(*to);
        x = op.b.expand(x, std::move(d));
        continue;
      }
      if (const auto open = open_broadcast(op, size, Dim(*to))) {
        assume_broadcast(op.dims(), size, Dim(*to));
        x = repeat_if_one(op, x, axis, *open);
        continue;
      }
    }
    const ValueId own = size_value(op, have[static_cast<size_t>(axis)]);
    const ValueId n = at_least(op, element(op, sizes, i), have[static_cast<size_t>(axis)] == Dim(1) ? number(op, 0) : own);
    x = op.b.create(OpKind::Gather, {x, at_most(op, iota(op, n), op.b.sub(own, number(op, 1)))}, AxisAttrs{axis});
  }
  return x;
}

void range_by_data(Op& op) {
  const DType t = op.dtype(0);
  std::array<ValueId, 3> v;
  for (size_t i = 0; i < 3; ++i) v[i] = op.has(i) ? op.b.reshape(op.in(i), {}) : op.b.scalar(t, 1);
  const auto is = [&](size_t i, int64_t number) {
    const auto known = op.has(i) ? op.find_known(i) : std::nullopt;
    return known && known->v.size() == 1 && !known->v[0].is_real && known->v[0].num == Dim(number) && known->v[0].den == 1;
  };
  if (is_integer(t) && is(0, 0) && (!op.has(2) || is(2, 1))) return op.set(0, op.b.cast(iota(op, v[1]), t));
  const ValueId span = op.b.cast(op.b.sub(v[1], v[0]), DType::F64),
                n = op.b.unary(OpKind::Ceil, op.b.div(span, op.b.cast(v[2], DType::F64)));
  op.set(0, op.b.add(v[0], op.b.mul(op.b.cast(iota(op, n), t), v[2])));
}

namespace {

// Returns `n` slices along an axis (at most all), from `start` on (absent: the first).
ValueId part(Op& op, ValueId x, int64_t axis, ValueId start, ValueId n) {
  if (!x.valid()) return {};
  ValueId at = iota(op, at_most(op, n, size_value(op, op.graph().dims(x)[static_cast<size_t>(axis)])));
  if (start.valid()) at = op.b.add(start, at);
  return op.b.create(OpKind::Gather, {x, at}, AxisAttrs{axis});
}

}  // namespace

ValueId first_part(Op& op, ValueId x, int64_t axis, ValueId n) { return part(op, x, axis, {}, n); }

ValueId tile_by_data(Op& op, ValueId x, ValueId repeats) {
  const int count = op.graph().rank(x);
  for (int64_t i = 0; i < count && x.valid(); ++i) {
    if (constant_element(op, repeats, i) == 1) continue;
    const ValueId own = size_value(op, op.graph().dims(x)[static_cast<size_t>(i)]);
    const ValueId at = iota(op, op.b.mul(own, element(op, repeats, i)));
    x = op.b.create(OpKind::Gather, {x, op.b.create(OpKind::Mod, {at, own})}, AxisAttrs{i});
  }
  return x;
}

ValueId pad_by_data(Op& op, ValueId x, ValueId pads, const std::vector<int64_t>& axes, PadMode mode, ValueId fill) {
  const auto count = static_cast<int64_t>(axes.size());
  const ValueId zero = number(op, 0), one = number(op, 1);
  for (int64_t i = 0; i < count && x.valid(); ++i) {
    if (constant_element(op, pads, i) == 0 && constant_element(op, pads, count + i) == 0) continue;
    const int64_t axis = axes[static_cast<size_t>(i)];
    std::vector<Dim> along(static_cast<size_t>(op.graph().rank(x)), Dim(1));
    const ValueId own = size_value(op, op.graph().dims(x)[static_cast<size_t>(axis)]), last = op.b.sub(own, one);
    const ValueId before = element(op, pads, i);
    const ValueId places = iota(op, op.b.add(op.b.add(own, before), element(op, pads, count + i)));
    if (!places.valid()) return {};
    along[static_cast<size_t>(axis)] = op.graph().dims(places)[0];
    const ValueId at = op.b.sub(places, before);
    ValueId from = at_most(op, at_least(op, at, zero), last);
    if (mode == PadMode::Wrap) from = op.b.create(OpKind::Mod, {at, own});
    if (mode == PadMode::Reflect) {  // a period of both directions, without the ends twice
      const ValueId period = at_least(op, op.b.mul(last, number(op, 2)), one);
      const ValueId within = op.b.create(OpKind::Mod, {at, period});
      from = at_most(op, within, op.b.sub(period, within));
    }
    x = op.b.create(OpKind::Gather, {x, from}, AxisAttrs{axis});
    if (mode != PadMode::Constant) continue;
    const ValueId inside = op.b.create(OpKind::And, {op.b.create(OpKind::Ge, {at, zero}), op.b.create(OpKind::Lt, {at, own})});
    x = op.b.create(OpKind::Where, {op.b.reshape(inside, along), x, fill});
  }
  return x;
}

void top_k_by_data(Op& op, TopKAttrs a) {
  const ValueId k = at_most(op, element(op, op.in(1), 0), size_value(op, op.sizes(0)[static_cast<size_t>(a.axis)]));
  const ValueId places = iota(op, k);
  if (!places.valid()) return;
  a.k = op.graph().dims(places)[0];
  const NodeId n = op.b.create_node(OpKind::TopK, std::array{op.in(0)}, a);
  for (size_t r = 0; n.valid() && r < 2; ++r) op.set(r, op.graph().result(n, r));
}

void split_by_data(Op& op, int64_t axis) {
  const ValueId x = op.in(0);
  ValueId start;
  for (size_t i = 0; i < op.outputs(); ++i) {
    const ValueId n = element(op, op.in(1), static_cast<int64_t>(i));
    if (op.wants(i)) op.set(i, part(op, x, axis, start, n));
    start = start.valid() ? op.b.add(start, n) : n;
  }
}

ValueId slice_by_data(Op& op, ValueId x, int64_t axis, ValueId starts, ValueId ends, int64_t i, int64_t step) {
  if (!x.valid()) return {};
  const ValueId zero = number(op, 0), size = size_value(op, op.graph().dims(x)[static_cast<size_t>(axis)]);
  const ValueId last = step > 0 ? size : op.b.sub(size, number(op, 1));
  const auto place = [&](ValueId v, int64_t lowest) {
    v = element(op, v, i);
    v = op.b.create(OpKind::Where,
                    {op.b.create(OpKind::Lt, {v, zero}), op.b.add(at_least(op, v, op.b.sub(number(op, -1), size)), size), v});
    return at_most(op, at_least(op, v, number(op, lowest)), last);
  };
  const ValueId start = place(starts, 0), end = place(ends, step > 0 ? 0 : -1);
  const ValueId span = step > 0 ? op.b.sub(end, start) : op.b.sub(start, end);
  const int64_t stride = step > 0 ? step : -step;
  const ValueId n = op.b.div(op.b.add(at_least(op, span, zero), number(op, stride - 1)), number(op, stride));
  return op.b.create(OpKind::Gather, {x, op.b.add(start, op.b.mul(iota(op, n), number(op, step)))}, AxisAttrs{axis});
}

// If the contents are known (a mask computed from sizes, as in exporters' repeat_interleave), the indices are constants.
void non_zero(Op& op) {
  const Known* k = op.known(0);
  const auto is_constant = [&](const Num& n) { return n.is_real || op.dims().constant_value(n.num); };
  if (!k || k->shape.empty() || !std::ranges::all_of(k->v, is_constant)) return op.set(0, op.b.unary(OpKind::NonZero, op.in(0)));
  std::vector<std::vector<int64_t>> places(k->shape.size());
  for (size_t i = 0; i < k->v.size(); ++i) {
    const Num& n = k->v[i];
    if (n.is_real ? n.real == 0 : n.num == Dim(0)) continue;
    for (size_t axis = places.size(), rest = i; axis-- > 0; rest /= static_cast<size_t>(k->shape[axis]))
      places[axis].push_back(static_cast<int64_t>(rest % static_cast<size_t>(k->shape[axis])));
  }
  std::vector<int64_t> all;
  for (const auto& axis : places) all.insert(all.end(), axis.begin(), axis.end());
  const std::vector<int64_t> dims = {std::ssize(places), std::ssize(places[0])};
  op.set(0, op.b.constant(make_data(DType::I64, dims, all)));
}

void compress(Op& op) {
  ValueId x = op.in(0);
  int64_t axis = 0;
  if (op.has_attr("axis")) {
    const auto given = op.axis(op.i("axis", 0), op.rank(0));
    if (!given) return;
    axis = *given;
  } else {
    x = op.b.reshape(x, {op.dims().product(op.sizes(0))});
  }
  if (op.dtype(1) != DType::Bool || op.rank(1) != 1)
    return (void)op.fail(Code::BadType, "the condition must be a vector of bools, is " + op.show(1));
  if (!x.valid()) return;
  const Dim length = op.graph().dims(x)[static_cast<size_t>(axis)], given = op.sizes(1)[0];
  const TensorData* mask = op.tensor(1);
  if (const auto known = op.dims().constant_value(length); mask && known) {
    std::vector<int64_t> kept;
    for (int64_t i = 0; i < std::min(mask->elements(), *known); ++i)
      if (element_as_int(*mask, i) != 0) kept.push_back(i);
    return op.set(0, op.b.create(OpKind::Gather, {x, op.b.ints(std::move(kept))}, AxisAttrs{axis}));
  }
  ValueId condition = op.in(1);
  if (!op.dims().at_least(op.dims().sub(length, given), 0))  // entries beyond the axis choose nothing
    condition = op.b.narrow(condition, 0, Dim(0), op.dims().min(given, length));
  const ValueId found = op.b.unary(OpKind::NonZero, condition);
  if (found.valid())
    op.set(0, op.b.create(OpKind::Gather, {x, op.b.reshape(found, {op.graph().dims(found)[1]})}, AxisAttrs{axis}));
}

void unique(Op& op) {
  UniqueAttrs a;
  a.sorted = op.i("sorted", 1) != 0;
  a.flat = !op.has_attr("axis");
  if (!a.flat) {
    const auto axis = op.axis(op.i("axis", 0), op.rank(0));
    if (!axis) return;
    a.axis = *axis;
  }
  const NodeId n = op.b.create_node(OpKind::Unique, std::array{op.in(0)}, a);
  for (size_t i = 0; n.valid() && i < std::min(op.outputs(), op.graph().result_count(n)); ++i) op.set(i, op.graph().result(n, i));
}

void non_max_suppression(Op& op) {
  std::vector<ValueId> operands;
  for (size_t i = 0; i < op.inputs(); ++i) operands.push_back(op.in(i));
  op.set(0, op.b.create(OpKind::NonMaxSuppression, operands, NmsAttrs{op.i("center_point_box", 0) != 0}));
}

void image_decoder(Op& op) {
  ImageDecodeAttrs a;
  if (op.choose("pixel_format", op.s("pixel_format", "RGB"), &a.format))
    op.set(0, op.b.create(OpKind::ImageDecode, {op.in(0)}, a));
}

}  // namespace rlxc::onnx_import
