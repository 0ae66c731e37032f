// Places that values tell: dynamic slices, gather and scatter. Whole rows are gathered and scattered as such; all else by places
// in the flattened operand, of one number per element.
#include <algorithm>

#include "import/stablehlo/importer.h"

namespace rlxc::stablehlo_import {
namespace {

Value as_index(Op& op, const Value& v) { return op.cast(v, DType::I64); }

// start, at most `limit`, and at least 0.
Value within(Op& op, const Value& start, Dim limit) {
  if (start.known && limit.is_static() &&
      std::ranges::all_of(*start.known, [&](Dim d) { return d.is_static() && d.size() <= limit.size(); }))
    return start;
  return op.clamp(start, op.scalar(DType::I64, 0), op.size(limit, DType::I64));
}

Value counted(Op& op, Dim n) { return op.iota(DType::I64, {n}, 0); }

Value dynamic_slice_of(Op& op, Value x, const std::vector<Value>& starts, const Dims& sizes) {
  for (size_t i = 0; i < sizes.size() && x.valid(); ++i) {
    const auto axis = static_cast<int64_t>(i);
    if (x.dims[i] == sizes[i] || op.dims().equal(x.dims[i], sizes[i])) continue;
    const Dim room = op.dims().sub(x.dims[i], sizes[i]);
    if (const auto n = op.dims().constant_value(room); n && *n < 0) {
      op.fail(Code::BadShape, "the slice is larger than its operand");
      return {};
    }
    if (starts[i].known && starts[i].known->size() == 1) {
      const Dim start = op.dims().max(op.dims().min((*starts[i].known)[0], room), Dim(0));
      x = op.narrow(x, axis, start, sizes[i]);
      continue;
    }
    const Value first = within(op, as_index(op, starts[i]), room);
    const Value places =
        sizes[i] == Dim(1) ? op.reshape(first, {Dim(1)}) : op.add(op.broadcast(first, {sizes[i]}, {}), counted(op, sizes[i]));
    x = op.made(op.b().create(OpKind::Gather, {op.whole(x), op.whole(places)}, AxisAttrs{axis}));
  }
  return x;
}

bool start_operands(Op& op, size_t first, size_t rank) {
  if (op.inputs() != first + rank) return op.fail(Code::BadArity, "it takes a start for each axis");
  for (size_t i = first; i < op.inputs(); ++i)
    if (!op.in(i).dims.empty() || !is_integer(op.in(i).dtype)) return op.fail(Code::BadType, "starts are single integers");
  return true;
}

void dynamic_slice(Op& op) {
  if (op.inputs() == 0) return (void)op.fail(Code::BadArity, "it takes a value and starts");
  const size_t rank = op.in(0).dims.size();
  const auto sizes = op.ints("sizes", "slice_sizes");
  if (!sizes || sizes->size() != rank || std::ranges::any_of(*sizes, [](int64_t n) { return n < 0; }))
    return (void)op.fail(Code::BadAttribute, "it needs a size for each axis");
  if (!start_operands(op, 1, rank)) return;
  const std::vector<Value> starts(op.all().begin() + 1, op.all().end());
  op.set(0, dynamic_slice_of(op, op.in(0), starts, Dims(sizes->begin(), sizes->end())));
}

// Writes rows of one axis, which are all there.
Value with_rows(Op& op, const Value& x, const Value& update, const Value& start, size_t axis) {
  const auto at = static_cast<int64_t>(axis);
  const Dim room = op.dims().sub(x.dims[axis], update.dims[axis]);
  if (const auto known = op.constant(start); known && room.is_static()) {
    const int64_t from = std::clamp<int64_t>(*known, 0, room.size());
    std::vector<Value> parts;
    if (from > 0) parts.push_back(op.narrow(x, at, Dim(0), Dim(from)));
    parts.push_back(update);
    if (from < room.size())
      parts.push_back(op.narrow(x, at, op.dims().add(Dim(from), update.dims[axis]), Dim(room.size() - from)));
    return op.concat(parts, at);
  }
  const Value first = within(op, as_index(op, start), room);
  const Value places = op.add(op.broadcast(first, {update.dims[axis]}, {}), counted(op, update.dims[axis]));
  const Value index = op.broadcast(places, update.dims, {at});
  return op.made(op.b().create(OpKind::ScatterElements, {op.whole(x), op.whole(index), op.whole(update)},
                               ScatterAttrs{at, Reduction::None}));
}

void dynamic_update_slice(Op& op) {
  if (op.inputs() < 2) return (void)op.fail(Code::BadArity, "it takes a value, an update and starts");
  const Value &x = op.in(0), &update = op.in(1);
  const size_t rank = x.dims.size();
  if (update.dims.size() != rank || update.dtype != x.dtype)
    return (void)op.fail(Code::BadShape, "its update does not fit its operand");
  if (!start_operands(op, 2, rank)) return;
  std::vector<size_t> partial;
  for (size_t i = 0; i < rank; ++i) {
    const auto room = op.dims().constant_value(op.dims().sub(x.dims[i], update.dims[i]));
    if (room && *room < 0) return (void)op.fail(Code::BadShape, "its update is larger than its operand");
    if (update.dims[i] == Dim(0)) return op.set(0, x);
    if (room != 0) partial.push_back(i);
  }
  // The rows of all but the last partial axis are read, and written with the update in them.
  std::vector<Value> read = {x};
  for (size_t k = 0; k + 1 < partial.size(); ++k) {
    Dims sizes = read.back().dims;
    sizes[partial[k]] = update.dims[partial[k]];
    std::vector<Value> starts(op.all().begin() + 2, op.all().end());
    read.push_back(dynamic_slice_of(op, read.back(), starts, sizes));
    if (!read.back().valid()) return;
  }
  Value out = update;
  for (size_t k = partial.size(); k-- > 0 && out.valid();) out = with_rows(op, read[k], out, op.in(2 + partial[k]), partial[k]);
  op.set(0, std::move(out));
}

// Dimension numbers of gather and scatter.
struct Numbers {
  Ints window, collapsed, batching, index_batching, mapped;  // of scatter: update_window_dims, inserted_window_dims, ...
  int64_t vector = 0;                                        // the axis of the indices that holds the numbers of a place
  Dims batch = {};                                           // sizes of the other axes of the indices
  Ints kept = {};                                            // axes of the operand that are axes of the windows
};

bool contains(const Ints& list, size_t axis) { return std::ranges::count(list, static_cast<int64_t>(axis)) > 0; }

bool read_numbers(Op& op, bool scatter, const Value& x, const Value& index, Numbers* n) {
  const Attr* a = scatter ? op.attr("scatter_dimension_numbers") : op.attr("dimension_numbers");
  if (!a) return op.fail(Code::BadAttribute, "it needs dimension numbers");
  const auto list = [&](std::string_view of_gather, std::string_view of_scatter) {
    const Attr* found = a->find(scatter ? of_scatter : of_gather);
    return found ? integers(*found).value_or(Ints{-1}) : Ints();
  };
  n->window = list("offset_dims", "update_window_dims");
  n->collapsed = list("collapsed_slice_dims", "inserted_window_dims");
  n->batching = list("operand_batching_dims", "input_batching_dims");
  n->index_batching = list("start_indices_batching_dims", "scatter_indices_batching_dims");
  n->mapped = list("start_index_map", "scatter_dims_to_operand_dims");
  const Attr* vector = a->find("index_vector_dim");
  n->vector = vector ? vector->integer : 0;
  const size_t rank = x.dims.size(), index_rank = index.dims.size();
  if (!is_integer(index.dtype)) return op.fail(Code::BadType, "places are integers");
  if (n->vector < 0 || n->vector > static_cast<int64_t>(index_rank))
    return op.fail(Code::BadAttribute, "index_vector_dim is no axis of the places");
  const Dim count = n->vector == static_cast<int64_t>(index_rank) ? Dim(1) : index.dims[static_cast<size_t>(n->vector)];
  if (count != Dim(static_cast<int64_t>(n->mapped.size())))
    return op.fail(Code::BadShape, "places have as many numbers as axes are mapped");
  std::vector<int> used(rank), placed(rank);
  const auto mark = [&](const Ints& axes, std::vector<int>& in) {
    return std::ranges::all_of(axes, [&](int64_t axis) {
      return axis >= 0 && axis < static_cast<int64_t>(rank) && ++in[static_cast<size_t>(axis)] == 1;
    });
  };
  if (!mark(n->collapsed, used) || !mark(n->batching, used) || !mark(n->batching, placed) || !mark(n->mapped, placed))
    return op.fail(Code::BadAttribute, "its dimension numbers do not fit its operand");
  for (size_t i = 0; i < index_rank; ++i)
    if (static_cast<int64_t>(i) != n->vector) n->batch.push_back(index.dims[i]);
  for (size_t i = 0; i < rank; ++i)
    if (!used[i]) n->kept.push_back(static_cast<int64_t>(i));
  if (n->kept.size() != n->window.size() || n->batching.size() != n->index_batching.size())
    return op.fail(Code::BadAttribute, "its dimension numbers do not fit its operand");
  const size_t all = n->batch.size() + n->window.size();
  if (!std::ranges::is_sorted(n->window)) return op.fail(Code::BadAttribute, "axes of windows are in ascending order");
  for (size_t i = 0; i < n->window.size(); ++i)
    if (n->window[i] < 0 || n->window[i] >= static_cast<int64_t>(all) || (i > 0 && n->window[i] == n->window[i - 1]))
      return op.fail(Code::BadAttribute, "its axes of windows are out of range");
  for (int64_t& axis : n->index_batching) {
    if (axis < 0 || axis >= static_cast<int64_t>(index_rank) || axis == n->vector)
      return op.fail(Code::BadAttribute, "its batching axes do not fit its places");
    if (axis > n->vector) --axis;  // among the others
  }
  return true;
}

// Number k of every place: a value of the batch's sizes.
Value place_part(Op& op, const Value& index, const Numbers& n, size_t k) {
  Value v = as_index(op, index);
  if (n.vector < static_cast<int64_t>(index.dims.size())) {
    if (n.mapped.size() > 1) v = op.narrow(v, n.vector, Dim(static_cast<int64_t>(k)), Dim(1));
    const auto known = index.known && index.dims.size() == 1 ? std::optional(Dims{(*index.known)[k]}) : std::nullopt;
    const auto all = n.mapped.size() == 1 && index.dims.size() > 1 ? index.known : std::nullopt;
    v = op.reshape(v, n.batch);
    v.known = known ? known : all;
  }
  return v;
}

// Axes of the gathered result, or of the updates, that are axes of the batch.
Ints batch_axes(const Numbers& n) {
  Ints out;
  for (size_t i = 0; i < n.batch.size() + n.window.size(); ++i)
    if (!contains(n.window, i)) out.push_back(static_cast<int64_t>(i));
  return out;
}

// The coordinate along an axis of the operand, of every element of the gathered result or the updates, which have the sizes `to`.
Value coordinate(Op& op, const Numbers& n, const std::vector<Value>& parts, size_t axis, const Dims& to) {
  const Ints batch = batch_axes(n);
  Value v = op.scalar(DType::I64, 0);
  for (size_t k = 0; k < n.mapped.size(); ++k)
    if (n.mapped[k] == static_cast<int64_t>(axis)) v = op.broadcast(parts[k], to, batch);
  for (size_t k = 0; k < n.batching.size(); ++k)
    if (n.batching[k] == static_cast<int64_t>(axis)) v = op.iota(DType::I64, to, batch[static_cast<size_t>(n.index_batching[k])]);
  for (size_t k = 0; k < n.kept.size(); ++k)
    if (n.kept[k] == static_cast<int64_t>(axis) && to[static_cast<size_t>(n.window[k])] != Dim(1)) {
      const Value along = op.iota(DType::I64, to, n.window[k]);
      v = v.dims.empty() && op.constant(v) == 0 ? along : op.add(v, along);
    }
  return v;
}

Value flattened(Op& op, const std::vector<Value>& coordinates, const Dims& of) {
  Value at = op.scalar(DType::I64, 0);
  bool first = true;
  for (size_t i = 0; i < of.size(); ++i) {
    if (!first) at = op.mul(at, op.size(of[i], DType::I64));
    at = first ? coordinates[i] : op.add(at, coordinates[i]);
    first = false;
  }
  return at;
}

void gather_slices(Op& op, const Value& x, const Value& index, const Dims& sizes) {
  Numbers n;
  if (!read_numbers(op, false, x, index, &n)) return;
  if (sizes.size() != x.dims.size()) return (void)op.fail(Code::BadAttribute, "it needs a slice size for each axis");
  bool rows = n.batching.empty();  // one element of each axis that is placed, and all of the others
  for (size_t i = 0; i < sizes.size(); ++i) {
    const bool one = sizes[i] == Dim(1), all = sizes[i] == x.dims[i];
    const auto room = op.dims().constant_value(op.dims().sub(x.dims[i], sizes[i]));
    if (room && *room < 0) return (void)op.fail(Code::BadShape, "a slice is larger than its operand");
    if ((contains(n.collapsed, i) || contains(n.batching, i)) && !one)
      return (void)op.fail(Code::BadAttribute, "slices of axes that are dropped have one element");
    rows = rows && (contains(n.mapped, i) ? contains(n.collapsed, i) : all && !contains(n.collapsed, i));
  }
  Dims to(n.batch.size() + n.window.size());
  const Ints batch = batch_axes(n);
  for (size_t i = 0; i < batch.size(); ++i) to[static_cast<size_t>(batch[i])] = n.batch[i];
  for (size_t i = 0; i < n.window.size(); ++i) to[static_cast<size_t>(n.window[i])] = sizes[static_cast<size_t>(n.kept[i])];
  std::vector<Value> parts;
  for (size_t k = 0; k < n.mapped.size(); ++k) {
    const auto axis = static_cast<size_t>(n.mapped[k]);
    const Dim room = op.dims().sub(x.dims[axis], sizes[axis]);
    parts.push_back(place_part(op, index, n, k));
    if (!n.batch.empty() || rows) parts.back() = within(op, parts.back(), room);
    if (!parts.back().valid()) return;
  }
  if (n.batch.empty() && n.batching.empty() && !rows) {  // one slice
    std::vector<Value> starts(sizes.size(), op.scalar(DType::I64, 0));
    for (size_t k = 0; k < n.mapped.size(); ++k) starts[static_cast<size_t>(n.mapped[k])] = parts[k];
    return op.set(0, op.reshape(dynamic_slice_of(op, x, starts, sizes), to));
  }
  if (rows && n.mapped.size() == 1) {
    const int64_t axis = n.mapped[0];
    const Value y = op.made(op.b().create(OpKind::Gather, {op.whole(x), op.whole(parts[0])}, AxisAttrs{axis}));
    // Its axes: those before the axis, the batch, those behind it.
    Ints perm(to.size());
    for (size_t i = 0; i < batch.size(); ++i) perm[static_cast<size_t>(batch[i])] = axis + static_cast<int64_t>(i);
    for (size_t i = 0; i < n.window.size(); ++i)
      perm[static_cast<size_t>(n.window[i])] =
          static_cast<int64_t>(i) < axis ? static_cast<int64_t>(i) : static_cast<int64_t>(i + batch.size());
    return op.set(0, y.valid() ? op.transpose(y, perm) : y);
  }
  if (rows && n.mapped.size() > 1) {
    Ints order = n.mapped;
    order.insert(order.end(), n.kept.begin(), n.kept.end());
    Dims one = n.batch;
    one.emplace_back(1);
    for (Value& p : parts) p = op.reshape(p, one);
    const Value places = op.concat(parts, static_cast<int64_t>(n.batch.size()));
    const Value y =
        op.made(op.b().create(OpKind::GatherNd, {op.whole(op.transpose(x, order)), op.whole(places)}, BatchDimsAttrs{0}));
    Ints perm(to.size());
    for (size_t i = 0; i < batch.size(); ++i) perm[static_cast<size_t>(batch[i])] = static_cast<int64_t>(i);
    for (size_t i = 0; i < n.window.size(); ++i) perm[static_cast<size_t>(n.window[i])] = static_cast<int64_t>(i + batch.size());
    return op.set(0, y.valid() ? op.transpose(y, perm) : y);
  }
  std::vector<Value> coordinates;
  for (size_t i = 0; i < x.dims.size(); ++i) coordinates.push_back(coordinate(op, n, parts, i, to));
  Value at = flattened(op, coordinates, x.dims);
  if (at.dims.size() != to.size()) at = op.broadcast(at, to, {});
  op.set(0, op.made(op.b().create(OpKind::Gather, {op.whole(op.flat(x)), op.whole(at)}, AxisAttrs{0})));
}

void gather(Op& op) {
  const auto sizes = op.ints("slice_sizes");
  if (!op.needs(2)) return;
  if (!sizes || std::ranges::any_of(*sizes, [](int64_t s) { return s < 0; }))
    return (void)op.fail(Code::BadAttribute, "it needs slice_sizes");
  gather_slices(op, op.in(0), op.in(1), Dims(sizes->begin(), sizes->end()));
}

void dynamic_gather(Op& op) {
  if (!op.needs(3)) return;
  if (!op.in(2).known) return (void)op.unsupported("its slice sizes must be constants or depend on sizes of inputs alone");
  gather_slices(op, op.in(0), op.in(1), *op.in(2).known);
}

std::optional<Reduction> reduction_of(Combine c) {
  switch (c) {
    case Combine::Second: return Reduction::None;
    case Combine::Add: return Reduction::Add;
    case Combine::Mul: return Reduction::Mul;
    case Combine::Max: return Reduction::Max;
    case Combine::Min: return Reduction::Min;
    default: return std::nullopt;
  }
}

// Updates outside of the operand have no effect. They get a neutral value, or go to an extra row, which is cut off.
void scatter(Op& op) {
  if (op.inputs() != 3 || op.text.regions.size() != 1)
    return (void)op.unsupported("only one value is read, with one list of updates");
  Value x = op.in(0), updates = op.in(2);
  const Value& index = op.in(1);
  Numbers n;
  if (!read_numbers(op, true, x, index, &n)) return;
  const DType type = x.dtype;
  const auto reduction = reduction_of(combine_of(op.text.regions[0]));
  if (!reduction || (type == DType::Bool && reduction != Reduction::None))
    return (void)op.unsupported("its region is none of: the update, add, multiply, maximum, minimum");
  const Ints batch = batch_axes(n);
  if (updates.dtype != type || updates.dims.size() != n.batch.size() + n.window.size())
    return (void)op.fail(Code::BadShape, "its updates do not fit its places");
  for (size_t i = 0; i < batch.size(); ++i)
    if (updates.dims[static_cast<size_t>(batch[i])] != n.batch[i])
      return (void)op.fail(Code::BadShape, "its updates do not fit its places");
  bool rows = n.batching.empty();
  for (size_t k = 0; k < n.kept.size(); ++k) {
    const Dim size = updates.dims[static_cast<size_t>(n.window[k])], all = x.dims[static_cast<size_t>(n.kept[k])];
    const auto room = op.dims().constant_value(op.dims().sub(all, size));
    if (room && *room < 0) return (void)op.fail(Code::BadShape, "a window of the updates is larger than the operand");
    rows = rows && size == all && !contains(n.mapped, static_cast<size_t>(n.kept[k]));
  }
  for (const int64_t axis : n.collapsed) rows = rows && contains(n.mapped, static_cast<size_t>(axis));
  std::vector<Value> parts;
  for (size_t k = 0; k < n.mapped.size(); ++k) parts.push_back(place_part(op, index, n, k));
  // Whole rows: the batch is what is scattered. Else every element.
  const Dims to = rows ? n.batch : updates.dims;
  std::vector<Value> coordinates;
  Dims of;
  if (rows) {
    for (size_t k = 0; k < n.mapped.size(); ++k) of.push_back(x.dims[static_cast<size_t>(n.mapped[k])]);
    coordinates = parts;
  } else {
    of = x.dims;
    for (size_t i = 0; i < x.dims.size(); ++i) coordinates.push_back(coordinate(op, n, parts, i, to));
  }
  std::optional<Value> inside;  // absent: all are
  for (size_t i = 0; i < of.size(); ++i) {
    const auto axis = rows ? n.mapped[i] : static_cast<int64_t>(i);
    if (!contains(n.mapped, static_cast<size_t>(axis))) continue;
    const Value& c = coordinates[i];
    if (!c.valid()) return;
    if (c.known && of[i].is_static() &&
        std::ranges::all_of(*c.known, [&](Dim d) { return d.is_static() && d.size() < of[i].size(); }))
      continue;
    const Value good = op.elementwise(OpKind::And, {op.elementwise(OpKind::Ge, {c, op.scalar(DType::I64, 0)}),
                                                    op.elementwise(OpKind::Lt, {c, op.size(of[i], DType::I64)})});
    inside = inside ? op.elementwise(OpKind::And, {*inside, good}) : good;
  }
  Value at = flattened(op, coordinates, of);
  if (at.dims.size() != to.size()) at = op.broadcast(at, to, {});
  if (!at.valid()) return;
  const Dims before = x.dims;
  Ints order = n.mapped;  // of rows: the axes that are placed, then the others
  order.insert(order.end(), n.kept.begin(), n.kept.end());
  Dims ordered;
  const Dim count = op.product(of);
  if (rows) {
    x = op.transpose(x, order);
    ordered = x.dims;
    Dims merged = {count};
    for (const int64_t axis : n.kept) merged.push_back(before[static_cast<size_t>(axis)]);
    x = op.reshape(x, merged);
    Ints perm = batch;
    perm.insert(perm.end(), n.window.begin(), n.window.end());
    updates = op.transpose(updates, perm);
  } else {
    x = op.flat(x);
  }
  const bool drops = inside.has_value();
  if (drops && reduction == Reduction::None) {
    at = op.select(*inside, at, op.size(count, DType::I64));
    Dims none(x.dims.size(), Dim(0)), one = none;
    one[0] = Dim(1);
    x = op.pad(x, none, one, op.scalar(type, 0));
  } else if (drops) {
    const Combine c = combine_of(op.text.regions[0]);
    Dims spread = to;
    while (spread.size() < updates.dims.size()) spread.emplace_back(1);
    Ints axes(to.size());
    for (size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<int64_t>(i);
    const Value mask = rows ? op.broadcast(*inside, updates.dims, axes) : *inside;
    updates = op.select(mask, updates, op.scalar(type, *identity_of(c, type)));
    at = op.select(*inside, at, op.scalar(DType::I64, 0));
  }
  if (!x.valid() || !updates.valid() || !at.valid()) return;
  if (at.dims.size() != to.size()) at = op.broadcast(at, to, {});
  Value y;
  if (rows) {
    Dims points = to;
    points.emplace_back(1);
    y = op.made(op.b().create(OpKind::ScatterNd, {op.whole(x), op.whole(op.reshape(at, points)), op.whole(updates)},
                              ScatterAttrs{0, *reduction}));
  } else {
    y = op.made(op.b().create(OpKind::ScatterElements, {op.whole(x), op.whole(op.flat(at)), op.whole(op.flat(updates))},
                              ScatterAttrs{0, *reduction}));
  }
  if (drops && reduction == Reduction::None) y = op.narrow(y, 0, Dim(0), count);
  if (!y.valid()) return;
  op.set(0, rows ? op.transpose(op.reshape(y, ordered), inverse_permutation(order)) : op.reshape(y, before));
}

constexpr OpRow kIndexRows[] = {{"dynamic_gather", dynamic_gather},
                                {"dynamic_slice", dynamic_slice, false, Complex::EachPart},
                                {"dynamic_update_slice", dynamic_update_slice, false, Complex::EachPart},
                                {"gather", gather, false, Complex::EachPart},
                                {"scatter", scatter}};

}  // namespace

std::span<const OpRow> index_rows() { return kIndexRows; }

}  // namespace rlxc::stablehlo_import
