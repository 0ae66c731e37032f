// Batching of elementwise operations and of those that move elements.
#include <algorithm>

#include "transform/batch_rules.h"
#include "transform/nn_gradients.h"

namespace rlxc::transform {

bool elementwise_batch(Batch& t) {
  std::vector<ValueId> operands;
  const int rank = static_cast<int>(t.result_dims().size());
  for (size_t i = 0; i < t.count(); ++i) operands.push_back(t.aligned(i, rank).v);
  const Term y{&t.b, t.b.create(t.op(), operands, t.b.module().attrs[t.graph.attr_id(t.node)])};
  return t.give(y), y.valid();
}

namespace {

Term create(Batch& t, OpKind op, std::initializer_list<Term> first, const Attrs& attrs) {
  std::vector<ValueId> operands;
  for (const Term& x : first) operands.push_back(x.v);
  for (size_t i = first.size(); i < t.count(); ++i) operands.push_back(t.in(i).v);
  return {&t.b, t.b.create(op, operands, attrs)};
}

// Only the first operand differs between samples: the same operation with its axes one further back.
template <class Attributes, auto kShift>
bool one_further(Batch& t) {
  if (t.batched_from(1)) return false;
  Attributes a = t.attrs<Attributes>();
  kShift(t, a);
  const NodeId n = [&] {
    std::vector<ValueId> operands;
    for (size_t i = 0; i < t.count(); ++i) operands.push_back(t.in(i).v);
    return t.b.create_node(t.op(), operands, a);
  }();
  for (size_t r = 0; n.valid() && r < t.results.size(); ++r) t.give({&t.b, t.b.graph().result(n, r)}, r);
  return n.valid();
}

constexpr auto next_axis = [](const Batch&, auto& a) { ++a.axis; };
constexpr auto next_axes = [](const Batch&, auto& a) {
  for (int64_t& axis : a.axes) ++axis;
};
constexpr auto new_size = [](const Batch& t, DimsAttrs& a) { a.dims.insert(a.dims.begin(), t.size); };
constexpr auto no_repeat = [](const Batch&, DimsAttrs& a) { a.dims.insert(a.dims.begin(), Dim(1)); };
constexpr auto stays_first = [](const Batch&, PermAttrs& a) {
  for (int64_t& axis : a.perm) ++axis;
  a.perm.insert(a.perm.begin(), 0);
};
constexpr auto no_padding = [](const Batch&, PadAttrs& a) {
  a.before.insert(a.before.begin(), Dim(0));
  a.after.insert(a.after.begin(), Dim(0));
};
constexpr auto as_it_is = [](const Batch&, auto&) {};

bool expand_batch(Batch& t) {
  const int rank = static_cast<int>(t.result_dims().size());
  return t.give(expand(t.aligned(0, rank), t.with_axis(t.result_dims()))), true;
}

bool reshape_to_batch(Batch& t) {
  if (t.batched(1)) return false;
  const std::vector<Dim> dims = t.result_dims();
  if (std::ranges::any_of(dims, [&](Dim d) { return !t.b.dims().constant_value(d); })) return false;
  return t.give(reshape(t.in(0), t.with_axis(dims))), true;
}

bool concat_batch(Batch& t) {
  std::vector<Term> parts;
  for (size_t i = 0; i < t.count(); ++i) parts.push_back(t.lifted(i));
  return t.give(concat(parts, t.attrs<AxisAttrs>().axis + 1)), true;
}

bool resize_batch(Batch& t) {
  ResizeAttrs a = t.attrs<ResizeAttrs>();
  if (!a.roi.empty()) {  // starts, then ends
    a.roi.insert(a.roi.begin() + static_cast<std::ptrdiff_t>(a.roi.size() / 2), 1);
    a.roi.insert(a.roi.begin(), 0);
  }
  a.sizes.insert(a.sizes.begin(), t.size);
  if (!a.scales.empty()) a.scales.insert(a.scales.begin(), 1);
  return t.give(make(OpKind::Resize, {t.in(0)}, a)), true;
}

// 0, 1, .. beside samples, to make of positions in one sample those in all.
Term sample_numbers(Batch& t, DType type, int rank) {
  std::vector<Dim> d(static_cast<size_t>(rank), Dim(1));
  d[0] = t.size;
  const Term n = count_up(t.b, t.size);
  return reshape(n.with(t.b.cast(n.v, type)), d);
}

bool gather_batch(Batch& t) {
  const int64_t axis = t.attrs<AxisAttrs>().axis;
  if (!t.batched(1)) return t.give(create(t, OpKind::Gather, {t.in(0)}, AxisAttrs{axis + 1})), true;
  const std::vector<Dim> d = t.dims(0);
  const int indices = t.rank(1);
  if (!t.batched(0)) {  // a shared table: the axis of samples is among those of the indices
    const Term y = make(OpKind::Gather, {t.in(0), t.in(1)}, AxisAttrs{axis});
    std::vector<int64_t> order{axis};
    for (int64_t i = 0; i < y.rank(); ++i)
      if (i != axis) order.push_back(i);
    return t.give(transpose(y, order)), true;
  }
  // Rows of all samples one after another.
  DimTable& dims = t.b.dims();
  const Dim n = d[static_cast<size_t>(axis)];
  std::vector<int64_t> front{0, axis + 1};
  for (int64_t i = 1; i <= t.rank(0); ++i)
    if (i != axis + 1) front.push_back(i);
  const Term x = transpose(t.in(0), front);
  std::vector<Dim> flat = x.dims();
  flat.erase(flat.begin());
  flat[0] = dims.mul(t.size, n);
  const Term index = t.in(1).with(t.b.cast(t.in(1).v, DType::I64));
  const Term length = index.with(t.b.create(OpKind::DimValue, {}, DimsAttrs{{n}, true}));
  const Term from_start = select(index < 0.0, index + length, index);
  const Term at = from_start + sample_numbers(t, DType::I64, indices + 1) * length;
  const Term y = make(OpKind::Gather, {reshape(x, flat), at}, AxisAttrs{0});  // samples, indices, then the other axes of x
  std::vector<int64_t> order{0};
  for (int64_t i = 0; i < axis; ++i) order.push_back(1 + indices + i);
  for (int64_t i = 0; i < indices; ++i) order.push_back(1 + i);
  for (int64_t i = 1 + indices + axis; i < y.rank(); ++i) order.push_back(i);
  return t.give(transpose(y, order)), true;
}

bool gather_elements_batch(Batch& t) {
  return t.give(make(OpKind::GatherElements, {t.lifted(0), t.lifted(1)}, AxisAttrs{t.attrs<AxisAttrs>().axis + 1})), true;
}
bool gather_nd_batch(Batch& t) {
  const int64_t batch = t.attrs<BatchDimsAttrs>().batch_dims;
  if (t.batched(0) || batch > 0)
    return t.give(make(OpKind::GatherNd, {t.lifted(0), t.lifted(1)}, BatchDimsAttrs{batch + 1})), true;
  return t.give(make(OpKind::GatherNd, {t.in(0), t.in(1)}, BatchDimsAttrs{0})), true;
}

bool scatter_elements_batch(Batch& t) {
  const ScatterAttrs s = t.attrs<ScatterAttrs>();
  return t.give(make(OpKind::ScatterElements, {t.lifted(0), t.lifted(1), t.lifted(2)}, ScatterAttrs{s.axis + 1, s.reduction})),
         true;
}

// The number of the sample becomes the first coordinate.
bool scatter_nd_batch(Batch& t) {
  const Term index = t.lifted(1);
  std::vector<Dim> column = index.dims();
  column.back() = Dim(1);
  const Term at = concat({expand(sample_numbers(t, index.dtype(), index.rank()), column), index}, index.rank() - 1);
  return t.give(make(OpKind::ScatterNd, {t.lifted(0), at, t.lifted(2)}, t.attrs<ScatterAttrs>())), true;
}

bool one_hot_batch(Batch& t) {
  if (t.batched(1)) return false;
  OneHotAttrs a = t.attrs<OneHotAttrs>();
  ++a.axis;
  return t.give(create(t, OpKind::OneHot, {t.in(0)}, a)), true;
}

bool range_batch(Batch& t) {
  const auto column = [&](size_t i) { return reshape(t.in(i), t.batched(i) ? std::vector{t.size, Dim(1)} : std::vector<Dim>{}); };
  const Dim n = t.attrs<DimsAttrs>().dims[0];
  const Term at = count_up(t.b, n), start = column(0);
  return t.give(start + start.with(t.b.cast(at.v, start.dtype())) * column(1)), true;
}

bool bit_cast_batch(Batch& t) { return t.give(create(t, OpKind::BitCast, {t.in(0)}, t.attrs<CastAttrs>())), true; }

}  // namespace

std::span<const BatchEntry> movement_batches() {
  static constexpr BatchEntry kTable[] = {
      {OpKind::Reshape, one_further<DimsAttrs, new_size>},
      {OpKind::ReshapeTo, reshape_to_batch},
      {OpKind::Transpose, one_further<PermAttrs, stays_first>},
      {OpKind::Expand, expand_batch},
      {OpKind::Narrow, one_further<NarrowAttrs, next_axis>},
      {OpKind::Slice, one_further<SliceAttrs, next_axis>},
      {OpKind::Concat, concat_batch},
      {OpKind::Gather, gather_batch},
      {OpKind::GatherElements, gather_elements_batch},
      {OpKind::GatherNd, gather_nd_batch},
      {OpKind::ScatterElements, scatter_elements_batch},
      {OpKind::ScatterNd, scatter_nd_batch},
      {OpKind::Pad, one_further<PadAttrs, no_padding>},
      {OpKind::Reverse, one_further<AxesAttrs, next_axes>},
      {OpKind::Tile, one_further<DimsAttrs, no_repeat>},
      {OpKind::Trilu, one_further<TriluAttrs, as_it_is>},
      {OpKind::OneHot, one_hot_batch},
      {OpKind::Range, range_batch},
      {OpKind::Resize, resize_batch},
      {OpKind::BitCast, bit_cast_batch},
      {OpKind::Reduce, one_further<ReduceAttrs, next_axes>},
      {OpKind::ArgReduce, one_further<ArgAttrs, next_axis>},
      {OpKind::Cumsum, one_further<CumAttrs, next_axis>},
      {OpKind::Cumprod, one_further<CumAttrs, next_axis>},
      {OpKind::TopK, one_further<TopKAttrs, next_axis>},
      {OpKind::Softmax, one_further<AxisAttrs, next_axis>},
      {OpKind::LogSoftmax, one_further<AxisAttrs, next_axis>},
      {OpKind::LayerNorm, one_further<NormAttrs, next_axis>},
      {OpKind::RmsNorm, one_further<NormAttrs, next_axis>},
      {OpKind::BatchNormInference, one_further<NormAttrs, next_axis>},
      {OpKind::Fft, one_further<FftAttrs, next_axis>},
      {OpKind::Det, one_further<NoAttrs, as_it_is>},
      {OpKind::StringEqual, elementwise_batch},
      {OpKind::StringConcat, elementwise_batch},
      {OpKind::StringIndex, elementwise_batch},
      {OpKind::StringMatch, elementwise_batch},
  };
  return kTable;
}

}  // namespace rlxc::transform
