// Operations that move elements: constants, reshapes, slices, padding.
#include <algorithm>

#include "import/stablehlo/importer.h"

namespace rlxc::stablehlo_import {
namespace {

bool is_axis(int64_t axis, size_t rank) { return axis >= 0 && axis < static_cast<int64_t>(rank); }
bool one_axis(Op& op, int64_t axis, size_t rank) {
  return is_axis(axis, rank) || op.fail(Code::BadAttribute, "there is no axis " + std::to_string(axis));
}
bool distinct_axes(Op& op, const Ints& axes, size_t rank) {
  std::vector<bool> seen(rank);
  for (const int64_t a : axes) {
    if (!one_axis(op, a, rank)) return false;
    if (seen[static_cast<size_t>(a)]) return op.fail(Code::BadAttribute, "axis " + std::to_string(a) + " is named twice");
    seen[static_cast<size_t>(a)] = true;
  }
  return true;
}
bool as_many(Op& op, const Ints& list, size_t rank, std::string_view what) {
  return list.size() == rank || op.fail(Code::BadAttribute, std::string(what) + " needs a number for each axis");
}

void constant(Op& op) {
  const Attr* a = op.attr("value");
  if (!a || (a->kind != Attr::Kind::Dense && a->kind != Attr::Kind::Resource))
    return (void)op.fail(Code::BadAttribute, "it needs a literal dense<...>");
  if (op.outputs() == 1) op.set(0, op.im.literal(*a, op.text.result_types[0], op.text.at));
}

void iota(Op& op) {
  const int64_t axis = op.integer("dim", -1, "iota_dimension");
  const Dims to = op.declared_dims(0);
  if (!one_axis(op, axis, to.size())) return;
  const DType t = op.declared(0);
  if (t == DType::Bool || is_complex(t) || !op.text.result_types[0].dtype) return (void)op.unsupported("its type is not read");
  if (!op.static_sizes(to)) return (void)op.unsupported("its sizes must be known");
  op.set(0, op.iota(t, to, axis));
}

bool fits_broadcast(Op& op, const Value& x, const Dims& to, const Ints& axes) {
  if (axes.size() != x.dims.size()) return op.fail(Code::BadAttribute, "it needs an axis for each of its operand");
  if (!distinct_axes(op, axes, to.size())) return false;
  for (size_t i = 0; i < axes.size(); ++i) {
    const Dim have = x.dims[i], want = to[static_cast<size_t>(axes[i])];
    if (have == Dim(1) || have == want || op.dims().equal(have, want)) continue;
    if ((have.is_static() && want.is_static()) || !op.dims().assume_equal(have, want))
      return op.fail(Code::BadShape, "axis " + std::to_string(i) + " of its operand does not fit the result");
  }
  return true;
}

void broadcast_in_dim(Op& op) {
  const auto axes = op.ints("dims", "broadcast_dimensions");
  if (!op.needs(1)) return;
  Dims to = op.declared_dims(0);
  if (!axes) return (void)op.fail(Code::BadAttribute, "it needs dims");
  for (size_t i = 0; i < axes->size() && i < op.in(0).dims.size(); ++i)  // sizes that the text does not tell
    if (is_axis((*axes)[i], to.size()) && op.text.result_types[0].dims[static_cast<size_t>((*axes)[i])] == kUnknownSize)
      to[static_cast<size_t>((*axes)[i])] = op.in(0).dims[i];
  if (!fits_broadcast(op, op.in(0), to, *axes)) return;
  op.set(0, op.broadcast(op.in(0), to, *axes));
}

// The sizes that a vector of integers tells.
std::optional<Dims> told_sizes(Op& op, const Value& v) {
  const auto fits = [&](Dim d) { return d.is_static() || !op.dims().constant_value(d); };  // it is not negative
  if (v.known && v.dims.size() == 1 && std::ranges::all_of(*v.known, fits)) return v.known;
  op.unsupported("its sizes must be constants or depend on sizes of inputs alone");
  return std::nullopt;
}

void dynamic_broadcast_in_dim(Op& op) {
  if (!op.needs(2)) return;
  const auto axes = op.ints("dims", "broadcast_dimensions");
  const auto to = told_sizes(op, op.in(1));
  if (!to || !axes || !fits_broadcast(op, op.in(0), *to, *axes)) return;
  op.set(0, op.broadcast(op.in(0), *to, *axes));
}
void dynamic_iota(Op& op) {
  if (!op.needs(1)) return;
  const auto to = told_sizes(op, op.in(0));
  const int64_t axis = op.integer("dim", -1, "iota_dimension");
  if (to && one_axis(op, axis, to->size())) op.set(0, op.iota(op.declared(0), *to, axis));
}
void dynamic_reshape(Op& op) {
  if (!op.needs(2)) return;
  if (const auto to = told_sizes(op, op.in(1))) op.set(0, op.made(op.b().reshape(op.whole(op.in(0)), *to)));
}
void get_dimension_size(Op& op) {
  const int64_t axis = op.integer("dim", -1, "dimension");
  if (op.needs(1) && one_axis(op, axis, op.in(0).dims.size()))
    op.set(0, op.size(op.in(0).dims[static_cast<size_t>(axis)], op.declared(0)));
}

void reshape(Op& op) {
  if (!op.needs(1)) return;
  const Dims to = op.declared_dims(0);
  const auto have = op.static_sizes(op.in(0).dims), want = op.static_sizes(to);
  if (!want) return (void)op.unsupported("its sizes must be known");
  if (have && op.product(op.in(0).dims) != op.product(to))
    return (void)op.fail(Code::BadShape, "it changes the number of elements");
  op.set(0, op.reshape(op.in(0), to));
}

void transpose(Op& op) {
  const auto perm = op.ints("dims", "permutation");
  if (!op.needs(1)) return;
  if (!perm || !as_many(op, *perm, op.in(0).dims.size(), "its permutation") || !distinct_axes(op, *perm, perm->size())) return;
  op.set(0, op.transpose(op.in(0), *perm));
}

void reverse(Op& op) {
  const auto axes = op.ints("dims", "dimensions");
  if (!op.needs(1) || !axes || !distinct_axes(op, *axes, op.in(0).dims.size())) return;
  if (axes->empty()) return op.set(0, op.in(0));
  op.set(0, op.made(op.b().create(OpKind::Reverse, {op.whole(op.in(0))}, AxesAttrs{*axes})));
}

void concatenate(Op& op) {
  const int64_t axis = op.integer("dim", -1, "dimension");
  if (op.inputs() == 0) return (void)op.fail(Code::BadArity, "it needs an operand");
  if (!one_axis(op, axis, op.in(0).dims.size())) return;
  for (const Value& v : op.all())
    if (v.dims.size() != op.in(0).dims.size() || v.dtype != op.in(0).dtype)
      return (void)op.fail(Code::BadShape, "its operands differ in rank or type");
  Value out = op.concat(op.all(), axis);
  Dims known;
  bool all_known = op.in(0).dims.size() == 1 && out.valid();
  for (const Value& v : op.all()) {
    all_known = all_known && v.known;
    if (all_known) known.insert(known.end(), v.known->begin(), v.known->end());
  }
  if (all_known && static_cast<int64_t>(known.size()) <= kMostKnown) out.known = std::move(known);
  op.set(0, std::move(out));
}

// Elements start, start+step, ... below the limit, of each axis.
void sliced(Op& op, const Ints& starts, const Ints& limits, const Ints& steps) {
  Value v = op.in(0);
  for (size_t i = 0; i < v.dims.size() && v.valid(); ++i) {
    const auto n = op.dims().constant_value(v.dims[i]);
    const int64_t start = starts[i], limit = limits[i], step = steps[i];
    if (start < 0 || limit < start || step < 1 || (n && limit > *n))
      return (void)op.fail(Code::BadAttribute, "the range of axis " + std::to_string(i) + " does not fit its operand");
    if (!n) return (void)op.unsupported("the size of axis " + std::to_string(i) + " must be known");
    const int64_t length = (limit - start) / step + ((limit - start) % step != 0);
    if (start == 0 && length == *n) continue;
    const auto axis = static_cast<int64_t>(i);
    const auto known = v.known;
    if (step == 1) v = op.narrow(v, axis, Dim(start), Dim(length));
    else v = op.made(op.b().create(OpKind::Slice, {op.whole(v)}, SliceAttrs{axis, Dim(start), Dim(length), step}));
    if (known && v.valid() && v.dims.size() == 1) {
      v.known.emplace();
      for (int64_t k = 0; k < length; ++k) v.known->push_back((*known)[static_cast<size_t>(start + k * step)]);
    }
  }
  op.set(0, std::move(v));
}

void slice(Op& op) {
  if (!op.needs(1)) return;
  const size_t rank = op.in(0).dims.size();
  Ints starts, limits, steps;
  if (const Attr* ranges = op.attr("")) {
    for (const Attr& r : ranges->items) {
      const auto v = integers(r);
      if (!v || v->size() < 2 || v->size() > 3)
        return (void)op.fail(Code::BadAttribute, "a range is start:limit or start:limit:step");
      starts.push_back((*v)[0]);
      limits.push_back((*v)[1]);
      steps.push_back(v->size() == 3 ? (*v)[2] : 1);
    }
  } else {
    starts = op.ints_or(0, 0, "start_indices");
    limits = op.ints_or(0, 0, "limit_indices");
    steps = op.ints_or(rank, 1, "strides");
  }
  if (as_many(op, starts, rank, "its start") && as_many(op, limits, rank, "its limit") && as_many(op, steps, rank, "its step"))
    sliced(op, starts, limits, steps);
}

// Starts, limits and steps are operands whose values must be known.
void real_dynamic_slice(Op& op) {
  if (!op.needs(4)) return;
  Value v = op.in(0);
  for (size_t k = 1; k < 4; ++k)
    if (!op.in(k).known || op.in(k).known->size() != v.dims.size())
      return (void)op.unsupported("its places must be constants or depend on sizes of inputs alone");
  for (size_t i = 0; i < v.dims.size() && v.valid(); ++i) {
    const Dim start = (*op.in(1).known)[i], limit = (*op.in(2).known)[i];
    if (op.dims().constant_value((*op.in(3).known)[i]) != 1) return (void)op.unsupported("its steps must be 1");
    v = op.narrow(v, static_cast<int64_t>(i), start, op.dims().sub(limit, start));
  }
  op.set(0, std::move(v));
}

// Elements between those of an axis: each gets a row of fill behind it, and the last row is cut off.
Value with_interior(Op& op, const Value& v, size_t axis, int64_t between, const Value& fill) {
  Dims split = v.dims;
  split.insert(split.begin() + static_cast<std::ptrdiff_t>(axis) + 1, Dim(1));
  Dims before(split.size(), Dim(0)), after = before;
  after[axis + 1] = Dim(between);
  const Value spread = op.pad(op.reshape(v, split), before, after, fill);
  Dims merged = v.dims;
  merged[axis] = op.dims().mul(v.dims[axis], Dim(between + 1));
  const Value all = op.reshape(spread, merged);
  return op.narrow(all, static_cast<int64_t>(axis), Dim(0), op.dims().sub(merged[axis], Dim(between)));
}

void pad(Op& op) {
  if (!op.needs(2)) return;
  const size_t rank = op.in(0).dims.size();
  const Ints low = op.ints_or(0, 0, "low", "edge_padding_low"), high = op.ints_or(0, 0, "high", "edge_padding_high"),
             interior = op.ints_or(rank, 0, "interior", "interior_padding");
  if (op.in(1).dtype != op.in(0).dtype || !op.in(1).dims.empty())
    return (void)op.fail(Code::BadType, "its fill is one element of the type of its operand");
  if (as_many(op, low, rank, "low") && as_many(op, high, rank, "high") && as_many(op, interior, rank, "interior"))
    op.set(0, padded(op, op.in(0), low, high, interior, op.in(1)));
}

void dynamic_pad(Op& op) {
  if (!op.needs(5)) return;
  const size_t rank = op.in(0).dims.size();
  for (size_t k = 2; k < 5; ++k)
    if (!op.in(k).known || op.in(k).known->size() != rank)
      return (void)op.unsupported("its padding must be constants or depend on sizes of inputs alone");
  for (const Dim d : *op.in(4).known)
    if (d != Dim(0)) return (void)op.unsupported("its interior padding must be 0");
  op.set(0, op.pad(op.in(0), *op.in(2).known, *op.in(3).known, op.in(1)));
}

constexpr OpRow kMovementRows[] = {{"broadcast_in_dim", broadcast_in_dim, false, Complex::EachPart},
                                   {"concatenate", concatenate, false, Complex::EachPart},
                                   {"constant", constant, true},
                                   {"iota", iota},
                                   {"pad", pad, false, Complex::EachPart},
                                   {"reshape", reshape, false, Complex::EachPart},
                                   {"reverse", reverse, false, Complex::EachPart},
                                   {"slice", slice, false, Complex::EachPart},
                                   {"transpose", transpose, false, Complex::EachPart}};
constexpr OpRow kDynamicRows[] = {{"dynamic_broadcast_in_dim", dynamic_broadcast_in_dim},
                                  {"dynamic_iota", dynamic_iota},
                                  {"dynamic_pad", dynamic_pad},
                                  {"dynamic_reshape", dynamic_reshape},
                                  {"get_dimension_size", get_dimension_size},
                                  {"real_dynamic_slice", real_dynamic_slice}};

}  // namespace

Value padded(Op& op, const Value& given, const Ints& low, const Ints& high, const Ints& interior, const Value& fill) {
  constexpr int64_t kMost = int64_t{1} << 40;
  Value v = given;
  Dims before, after;
  for (size_t i = 0; i < low.size() && v.valid(); ++i) {
    if (interior[i] < 0 || interior[i] > kMost || low[i] < -kMost || low[i] > kMost || high[i] < -kMost || high[i] > kMost) {
      op.fail(Code::BadAttribute, "the padding of axis " + std::to_string(i) + " is out of range");
      return {};
    }
    before.push_back(op.dims().constant(low[i]));
    after.push_back(op.dims().constant(high[i]));
    if (interior[i] == 0 || v.dims[i] == Dim(1) || v.dims[i] == Dim(0)) continue;
    if (!v.dims[i].is_static()) {
      op.unsupported("interior padding needs a known size");
      return {};
    }
    v = with_interior(op, v, i, interior[i], fill);
  }
  return v.valid() ? op.pad(v, before, after, fill) : v;
}

std::span<const OpRow> movement_rows() { return kMovementRows; }
std::span<const OpRow> dynamic_rows() { return kDynamicRows; }

}  // namespace rlxc::stablehlo_import
