// Rules on ops that move elements, and on their neighbours.
#include <algorithm>
#include <limits>
#include <optional>

#include "passes/counted.h"
#include "passes/match.h"
#include "passes/quantize/roundings.h"
#include "passes/simplify/rules.h"

namespace rlxc::simplify {
namespace {

using enum OpKind;

std::vector<Dim> sizes(Simplifier& s, ValueId v) { return {s.graph().dims(v).begin(), s.graph().dims(v).end()}; }

bool same_shape(Simplifier& s, NodeId n) { return s.replace(n, arg(s, n)); }  // declined if the shape changes

bool reshape_reshape(Simplifier& s, NodeId n) {
  const NodeId inner = s.def(arg(s, n), Reshape);
  if (!inner.valid()) return false;
  return s.replace(n, arg(s, inner)) || s.replace(n, s.at(n).reshape(arg(s, inner), sizes(s, s.graph().result(n))));
}

// A reshape of a splat is a splat.
bool reshape_uniform(Simplifier& s, NodeId n) {
  const auto c = s.uniform(arg(s, n));
  const Type& t = s.graph().type(s.graph().result(n));
  if (!c || !t.is_static()) return false;
  const TensorData& d = s.graph().module().data[s.graph().attrs<DataAttrs>(s.graph().def(arg(s, n))).data];
  std::vector<int64_t> to;
  for (Dim k : t.dims) to.push_back(k.size());
  const auto element = static_cast<size_t>(bits(d.dtype)) / 8;
  return element > 0 && s.replace(n, s.at(n).constant(make_splat(d.dtype, to, d.bytes.first(element))));
}

bool transpose_transpose(Simplifier& s, NodeId n) {
  const NodeId inner = s.def(arg(s, n), Transpose);
  if (!inner.valid()) return false;
  const auto &outer = s.graph().attrs<PermAttrs>(n).perm, &first = s.graph().attrs<PermAttrs>(inner).perm;
  std::vector<int64_t> perm;
  for (int64_t p : outer) perm.push_back(first[static_cast<size_t>(p)]);
  return s.replace(n, s.at(n).transpose(arg(s, inner), perm));
}

bool transpose_identity(Simplifier& s, NodeId n) {
  return std::ranges::is_sorted(s.graph().attrs<PermAttrs>(n).perm) && s.replace(n, arg(s, n));
}

// A transpose that moves only axes of dim 1 is a reshape.
bool transpose_to_reshape(Simplifier& s, NodeId n) {
  int64_t last = -1;
  for (int64_t p : s.graph().attrs<PermAttrs>(n).perm) {
    if (s.graph().dims(arg(s, n))[static_cast<size_t>(p)] == Dim(1)) continue;
    if (p < last) return false;
    last = p;
  }
  return s.replace(n, s.at(n).create(Reshape, {arg(s, n)}, DimsAttrs{sizes(s, s.graph().result(n)), false}));
}

bool expand_expand(Simplifier& s, NodeId n) {
  const NodeId inner = s.def(arg(s, n), Expand);
  return inner.valid() && s.replace(n, s.at(n).expand(arg(s, inner), sizes(s, s.graph().result(n))));
}

bool narrow_full(Simplifier& s, NodeId n) { return s.graph().attrs<NarrowAttrs>(n).start == Dim(0) && s.replace(n, arg(s, n)); }

bool narrow_narrow(Simplifier& s, NodeId n) {
  const NodeId inner = s.def(arg(s, n), Narrow);
  if (!inner.valid()) return false;
  const auto &b = s.graph().attrs<NarrowAttrs>(n), &a = s.graph().attrs<NarrowAttrs>(inner);
  return a.axis == b.axis && s.replace(n, s.at(n).narrow(arg(s, inner), b.axis, s.dims().add(a.start, b.start), b.len));
}

bool slice_to_narrow(Simplifier& s, NodeId n) {
  const auto& a = s.graph().attrs<SliceAttrs>(n);
  if (a.step != 1 && a.len != Dim(1)) return false;
  return s.replace(n, s.at(n).narrow(arg(s, n), a.axis, a.start, a.len));
}

// A slice within one operand of a concatenation along the same axis reads this operand.
bool narrow_concat(Simplifier& s, NodeId n) {
  const NodeId c = s.def(arg(s, n), Concat);
  if (!c.valid()) return false;
  const auto a = s.graph().attrs<NarrowAttrs>(n);
  if (s.graph().attrs<AxisAttrs>(c).axis != a.axis || !a.start.is_static() || !a.len.is_static()) return false;
  int64_t offset = 0;
  for (ValueId part : s.graph().operands(c)) {
    const Dim d = s.graph().dims(part)[static_cast<size_t>(a.axis)];
    if (!d.is_static()) return false;
    if (a.start.size() >= offset && a.start.size() + a.len.size() <= offset + d.size())
      return s.replace(n, s.at(n).narrow(part, a.axis, a.start.size() - offset, a.len));
    offset += d.size();
    if (offset > a.start.size()) return false;
  }
  return false;
}

// A slice along the major axis of a split axis is a slice of the original axis.
bool narrow_reshape(Simplifier& s, NodeId n) {
  Graph& g = s.graph();
  const NodeId r = s.def(arg(s, n), Reshape);
  if (!r.valid()) return false;
  const auto a = g.attrs<NarrowAttrs>(n);
  const auto from = g.dims(g.operand(r, 0)), to = g.dims(arg(s, n));
  const Dim before = s.dims().product(to.first(static_cast<size_t>(a.axis)));
  Dim left(1);
  for (size_t k = 0; k < from.size(); ++k, left = s.dims().product(from.first(k))) {
    if (from[k] == Dim(1) || !s.dims().equal(left, before) || !s.dims().divides(to[static_cast<size_t>(a.axis)], from[k]))
      continue;
    const Dim inner = s.dims().floor_div(from[k], to[static_cast<size_t>(a.axis)]);
    const ValueId part =
        s.at(n).narrow(g.operand(r, 0), static_cast<int64_t>(k), s.dims().mul(a.start, inner), s.dims().mul(a.len, inner));
    return s.replace(n, s.at(n).reshape(part, sizes(s, g.result(n))));
  }
  return false;
}

bool concat_one(Simplifier& s, NodeId n) { return s.graph().operands(n).size() == 1 && s.replace(n, arg(s, n)); }

// Merges neighbours of a concatenation: adjacent slices of one value, or equal elementwise ops on adjacent slices.
class Joiner {
 public:
  Joiner(Simplifier& s, NodeId concat) : s_(s), g_(s.graph()), concat_(concat), axis_(g_.attrs<AxisAttrs>(concat).axis) {}

  bool joins(ValueId a, ValueId b, int depth = 0) const {
    if (adjacent(a, b)) return true;
    const NodeId x = g_.def(a), y = g_.def(b);
    if (depth == kSteps || g_.op(x) != g_.op(y) || !has_trait(g_.op(x), kElementwise) || g_.attr_id(x) != g_.attr_id(y) ||
        g_.dtype(a) != g_.dtype(b) || g_.use_count(a) > 1 || g_.use_count(b) > 1)
      return false;
    size_t parts = 0;
    for (size_t i = 0; i < g_.operands(x).size(); ++i) {
      const ValueId p = g_.operand(x, i), q = g_.operand(y, i);
      if (p == q && repeats(p, g_.rank(a))) continue;
      if (!match::same_dims(g_, p, a) || !match::same_dims(g_, q, b) || !joins(p, q, depth + 1)) return false;
      ++parts;
    }
    return parts > 0;
  }

  // Requires joins(a, b).
  ValueId join(ValueId a, ValueId b) const {
    const NodeId x = g_.def(a), y = g_.def(b);
    if (adjacent(a, b)) {
      const auto p = g_.attrs<NarrowAttrs>(x), q = g_.attrs<NarrowAttrs>(y);
      return s_.at(concat_).narrow(g_.operand(x, 0), axis_, p.start, s_.dims().add(p.len, q.len));
    }
    std::vector<ValueId> operands(g_.operands(x).begin(), g_.operands(x).end());
    for (size_t i = 0; i < operands.size(); ++i)
      if (const ValueId q = g_.operand(y, i); operands[i] != q) operands[i] = join(operands[i], q);
    return s_.at(concat_).create(g_.op(x), operands, g_.module().attrs[g_.attr_id(x)]);
  }

 private:
  static constexpr int kSteps = 8;

  bool adjacent(ValueId a, ValueId b) const {
    const NodeId x = s_.def(a, Narrow), y = s_.def(b, Narrow);
    if (!x.valid() || !y.valid() || g_.operand(x, 0) != g_.operand(y, 0)) return false;
    const auto &p = g_.attrs<NarrowAttrs>(x), &q = g_.attrs<NarrowAttrs>(y);
    return p.axis == axis_ && q.axis == axis_ && s_.dims().add(p.start, p.len) == q.start;
  }
  // Returns whether v is constant along the axis.
  bool repeats(ValueId v, int rank) const {
    const int64_t own = axis_ - (rank - g_.rank(v));
    return own < 0 || g_.dims(v)[static_cast<size_t>(own)] == Dim(1);
  }

  Simplifier& s_;
  Graph& g_;
  NodeId concat_;
  int64_t axis_;
};

// Drops empty operands and merges neighbours.
bool concat_parts(Simplifier& s, NodeId n) {
  Graph& g = s.graph();
  const int64_t axis = g.attrs<AxisAttrs>(n).axis;
  const auto k = static_cast<size_t>(axis);
  const Joiner neighbours(s, n);
  std::vector<ValueId> parts;
  bool changed = false;
  const std::vector<ValueId> list(g.operands(n).begin(), g.operands(n).end());
  for (ValueId v : list) {
    if (g.dims(v)[k] == Dim(0) && list.size() > 1) {
      changed = true;
    } else if (!parts.empty() && neighbours.joins(parts.back(), v)) {
      const ValueId joined = neighbours.join(parts.back(), v);
      if (!joined.valid()) return false;
      parts.back() = joined;
      changed = true;
    } else {
      parts.push_back(v);
    }
  }
  if (!changed) return false;
  if (parts.empty()) parts.push_back(list.front());
  return s.replace(n, parts.size() == 1 ? parts[0] : s.at(n).concat(parts, axis));
}

// Splices in an operand that is a concatenation along the same axis without other users.
bool concat_concat(Simplifier& s, NodeId n) {
  Graph& g = s.graph();
  const int64_t axis = g.attrs<AxisAttrs>(n).axis;
  std::vector<ValueId> parts;
  bool changed = false;
  for (ValueId v : g.operands(n)) {
    const NodeId inner = s.def(v, Concat);
    if (inner.valid() && g.has_one_use(v) && g.attrs<AxisAttrs>(inner).axis == axis) {
      parts.insert(parts.end(), g.operands(inner).begin(), g.operands(inner).end());
      changed = true;
    } else {
      parts.push_back(v);
    }
  }
  return changed && s.replace(n, s.at(n).concat(parts, axis));
}

bool reverse_reverse(Simplifier& s, NodeId n) {
  const NodeId inner = s.def(arg(s, n), Reverse);
  if (!inner.valid()) return false;
  auto a = s.graph().attrs<AxesAttrs>(n).axes, b = s.graph().attrs<AxesAttrs>(inner).axes;
  std::ranges::sort(a);
  std::ranges::sort(b);
  return a == b && s.replace(n, arg(s, inner));
}

bool pad_nothing(Simplifier& s, NodeId n) {
  const auto& a = s.graph().attrs<PadAttrs>(n);
  auto zero = [](Dim d) { return d == Dim(0); };
  return std::ranges::all_of(a.before, zero) && std::ranges::all_of(a.after, zero) && s.replace(n, arg(s, n));
}

// Folds padding into a pool where that preserves its result: -inf for maxima, zeros for means that count padding.
bool pool_padded(Simplifier& s, NodeId n) {
  Graph& g = s.graph();
  const NodeId pad = s.def(arg(s, n), Pad);
  if (!pad.valid()) return false;
  const auto& p = g.attrs<PadAttrs>(pad);
  PoolAttrs a = g.attrs<PoolAttrs>(n);
  const auto value = arg(s, pad, 1).valid() ? s.uniform(arg(s, pad, 1)) : std::optional(0.0);
  const auto zero = [](int64_t size) { return size == 0; };
  const bool mean = a.op == ReduceOp::Mean,
             unpadded = std::ranges::all_of(a.pads_begin, zero) && std::ranges::all_of(a.pads_end, zero);
  if (p.mode != PadMode::Constant || a.ceil_mode || (!mean && a.op != ReduceOp::Max)) return false;
  if (value != (mean ? 0.0 : -std::numeric_limits<double>::infinity()) || (mean && !a.count_include_pad && !unpadded))
    return false;
  for (size_t i = 0; i < p.before.size(); ++i)
    for (auto [by, pads] : {std::pair(p.before[i], &a.pads_begin), std::pair(p.after[i], &a.pads_end)}) {
      if (!by.is_static() || by.size() < 0 || (i < 2 && by.size() > 0)) return false;
      if (i < 2) continue;
      const int64_t kernel = a.kernel[i - 2];
      int64_t& sum = (*pads)[i - 2];
      if (by.size() >= kernel || sum >= kernel - by.size()) return false;
      sum += by.size();
    }
  a.count_include_pad |= mean;
  return s.replace(n, s.at(n).create(Pool, {g.operand(pad, 0)}, std::move(a)));
}

bool tile_once(Simplifier& s, NodeId n) {
  return std::ranges::all_of(s.graph().attrs<DimsAttrs>(n).dims, [](Dim d) { return d == Dim(1); }) && s.replace(n, arg(s, n));
}

// A reduction over axes of dim 1 is a reshape.
bool reduce_nothing(Simplifier& s, NodeId n) {
  const auto& a = s.graph().attrs<ReduceAttrs>(n);
  if (a.op != ReduceOp::Sum && a.op != ReduceOp::Mean && a.op != ReduceOp::Max && a.op != ReduceOp::Min && a.op != ReduceOp::Prod)
    return false;
  for (int64_t axis : a.axes)
    if (s.graph().dims(arg(s, n))[static_cast<size_t>(axis)] != Dim(1)) return false;
  return s.replace(n, s.at(n).reshape(arg(s, n), sizes(s, s.graph().result(n))));
}

// A gather of one constant position is a slice.
bool gather_one(Simplifier& s, NodeId n) {
  const NodeId c = s.def(arg(s, n, 1), Constant);
  if (!c.valid() || num_elements(s.graph().type(arg(s, n, 1))) != 1) return false;
  const auto axis = static_cast<size_t>(s.graph().attrs<AxisAttrs>(n).axis);
  const Dim size = s.graph().dims(arg(s, n))[axis];
  int64_t i = element_as_int(s.graph().module().data[s.graph().attrs<DataAttrs>(c).data], 0);
  if (i < 0 && size.is_static()) i += size.size();
  if (i < 0 || (size.is_static() && i >= size.size())) return false;
  const ValueId row = s.at(n).narrow(arg(s, n), static_cast<int64_t>(axis), i, 1);
  return row.valid() && s.replace(n, s.at(n).reshape(row, sizes(s, s.graph().result(n))));
}

// Gathers rows once instead of at expanded indices, if all users broadcast.
bool gather_repeated(Simplifier& s, NodeId n) {
  Graph& g = s.graph();
  const NodeId e = s.def(arg(s, n, 1), Expand);
  if (!e.valid() || g.attrs<AxisAttrs>(n).axis != 0) return false;
  for (Graph::Use use : g.uses(g.result(n)))
    if (!has_trait(g.op(use.user), kElementwise) && !rounds_by_one(g, use.user)) return false;
  const ValueId rows = s.at(n).create(Gather, {arg(s, n), g.operand(e, 0)}, AxisAttrs{0});
  return rows.valid() && s.replace(n, s.at(n).expand(rows, sizes(s, g.result(n))));
}

// A value 0, 1, .. along one axis, counted from the front here.
struct Counter {
  ValueId range;
  size_t axis = 0;
};
std::optional<Counter> counter(Simplifier& s, ValueId v) {
  const auto c = counted(s.graph(), v);
  if (!c || c->start != Dim(0)) return std::nullopt;
  return Counter{c->range, static_cast<size_t>(s.graph().rank(v) - 1 - c->axis)};
}

// GatherNd at counting positions of every axis, in order: gathers of single axes, or the operand itself.
bool gather_counted(Simplifier& s, NodeId n) {
  Graph& g = s.graph();
  const NodeId all = s.def(arg(s, n, 1), Concat);
  ValueId v = arg(s, n);
  const std::vector<Dim> d = sizes(s, g.result(n));
  if (!all.valid() || g.attrs<BatchDimsAttrs>(n).batch_dims != 0 || g.operands(all).size() != static_cast<size_t>(g.rank(v)) ||
      g.attrs<AxisAttrs>(all).axis != static_cast<int64_t>(d.size()))
    return false;
  size_t next = 0;
  for (size_t a = 0; a < g.operands(all).size(); ++a) {
    const auto c = counter(s, arg(s, all, a));
    if (!c || c->axis < next || c->axis >= d.size() || g.dims(arg(s, all, a)).back() != Dim(1)) return false;
    for (; next < c->axis; ++next)
      if (d[next] != Dim(1)) return false;
    if (!s.dims().equal(d[next], g.dims(v)[a]) && !c->range.valid()) return false;
    if (!s.dims().equal(d[next], g.dims(v)[a])) v = s.at(n).create(Gather, {v, c->range}, AxisAttrs{static_cast<int64_t>(a)});
    ++next;
  }
  return std::all_of(d.begin() + static_cast<std::ptrdiff_t>(next), d.end(), [](Dim k) { return k == Dim(1); }) &&
         s.replace(n, s.at(n).reshape(v, d));
}

bool is_size(Simplifier& s, ValueId v, Dim d) {
  const NodeId n = s.def(v, DimValue);
  if (!n.valid()) return d.is_static() && s.uniform(v) == static_cast<double>(d.size());
  const auto& known = s.graph().attrs<DimsAttrs>(n).dims;
  return known.size() == 1 && s.dims().equal(known[0], d);
}

// Gathers at i * columns + j for all i and j: a reshape.
bool gather_all(Simplifier& s, NodeId n) {
  Graph& g = s.graph();
  const NodeId sum = s.def(arg(s, n, 1), Add);
  if (!sum.valid() || g.attrs<AxisAttrs>(n).axis != 0) return false;
  const auto along = [&](ValueId v) -> std::optional<std::pair<Dim, size_t>> {  // length and axis from the end
    const auto c = counter(s, v);
    const auto d = g.dims(v);
    if (!c || std::ranges::count_if(d, [](Dim k) { return k != Dim(1); }) != 1) return std::nullopt;
    return std::pair{d[c->axis], d.size() - c->axis};
  };
  for (size_t i = 0; i < 2; ++i) {
    const auto columns = along(arg(s, sum, i));
    const NodeId product = s.def(arg(s, sum, 1 - i), Mul);
    if (!columns || !product.valid()) continue;
    for (size_t k = 0; k < 2; ++k) {
      const auto rows = along(arg(s, product, k));
      if (!rows || rows->second <= columns->second || !is_size(s, arg(s, product, 1 - k), columns->first)) continue;
      if (!s.dims().equal(s.dims().mul(rows->first, columns->first), g.dims(arg(s, n))[0])) continue;
      if (g.rank(arg(s, product, 1 - k)) > 1 || s.dims().product(g.dims(arg(s, product, 1 - k))) != Dim(1)) continue;
      return s.replace(n, s.at(n).reshape(arg(s, n), sizes(s, g.result(n))));
    }
  }
  return false;
}

// A gather from a splat is a splat.
bool gather_uniform(Simplifier& s, NodeId n) {
  const auto c = s.uniform(arg(s, n));
  return c && s.replace(n, s.filled(n, s.graph().result(n), *c));
}

// Bounds of all elements of an index, from constants and clamping ops.
std::optional<std::pair<double, double>> index_bounds(Simplifier& s, ValueId v, int depth = 0) {
  const Graph& g = s.graph();
  const NodeId n = g.def(v);
  std::pair all(-std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity());
  if (const TensorData* d = match::data_of(g, v)) {
    if (d->elements() == 0 || d->elements() > (int64_t{1} << 24)) return std::nullopt;
    all = {element_as_double(*d, 0), element_as_double(*d, 0)};
    for (int64_t i = 1; !d->splat && i < d->elements(); ++i) {
      const double e = element_as_double(*d, i);
      all = {std::min(all.first, e), std::max(all.second, e)};
    }
    return all;
  }
  if (depth == 8) return std::nullopt;
  switch (g.op(n)) {
    case Reshape:
    case Expand:
    case Transpose: return index_bounds(s, arg(s, n), depth + 1);
    case Max:
    case Min: {
      for (size_t i = 0; i < 2; ++i) {
        const auto c = match::scalar(g, arg(s, n, i));
        if (!c) continue;
        auto b = index_bounds(s, arg(s, n, 1 - i), depth + 1).value_or(all);
        const auto limit = [&](double x) { return g.op(n) == Max ? std::max(x, *c) : std::min(x, *c); };
        return std::pair(limit(b.first), limit(b.second));
      }
      return std::nullopt;
    }
    default: return std::nullopt;
  }
}

// The index without leading axes along which it repeats, at most `most` of them.
ValueId unrepeated(Simplifier& s, NodeId before, ValueId index, size_t most, size_t* axes) {
  const Graph& g = s.graph();
  const auto to = g.dims(index);
  *axes = 0;
  if (const NodeId e = s.def(index, Expand); e.valid()) {
    const auto from = g.dims(g.operand(e, 0));
    const size_t extra = to.size() - from.size();
    while (*axes < most && (*axes < extra || from[*axes - extra] == Dim(1))) ++*axes;
    return s.at(before).reshape(g.operand(e, 0),
                                {from.begin() + static_cast<std::ptrdiff_t>(std::max(*axes, extra) - extra), from.end()});
  }
  const TensorData* d = match::data_of(g, index);
  if (!d || d->splat || bits(d->dtype) < 8) return {};
  size_t block = d->bytes.size();
  for (; *axes < most; ++*axes) {
    const size_t part = block / static_cast<size_t>(to[*axes].size());
    if (!std::equal(d->bytes.begin() + static_cast<std::ptrdiff_t>(part), d->bytes.begin() + static_cast<std::ptrdiff_t>(block),
                    d->bytes.begin()))
      break;
    block = part;
  }
  if (*axes == 0) return {};
  std::vector<int64_t> left(d->dims.begin() + static_cast<std::ptrdiff_t>(*axes), d->dims.end());
  return s.at(before).constant(make_data(d->dtype, left, d->bytes.first(block)));
}

// GatherElements along the last axis at indices that repeat along leading axes -> one Gather over the other axes, flattened.
bool gather_elements_repeated(Simplifier& s, NodeId n) {
  Graph& g = s.graph();
  const ValueId x = arg(s, n), index = arg(s, n, 1);
  const std::vector<Dim> from = sizes(s, x), to = sizes(s, index);
  const auto width = from.empty() ? std::nullopt : s.dims().constant_value(from.back());
  if (!width || g.attrs<AxisAttrs>(n).axis != static_cast<int64_t>(from.size()) - 1 || from.size() < 3 ||
      g.dtype(index) != DType::I64)
    return false;
  for (size_t i = 0; i + 1 < from.size(); ++i)
    if (!s.dims().equal(from[i], to[i])) return false;
  const auto bounds = index_bounds(s, index);
  if (!bounds || bounds->first < 0 || bounds->second >= static_cast<double>(*width)) return false;
  size_t lead = 0;
  ValueId once = unrepeated(s, n, index, from.size() - 2, &lead);
  if (!once.valid() || lead == 0) return false;
  const std::span<const Dim> rest = std::span(from).subspan(lead);
  const Dim rows = s.dims().product(rest.first(rest.size() - 1));
  Builder& b = s.at(n);
  std::vector<Dim> row(rest.size(), Dim(1)), flat(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(lead));
  std::copy(rest.begin(), rest.end() - 1, row.begin());
  flat.push_back(s.dims().mul(rows, from.back()));
  const ValueId first =
      b.create(Range, {b.scalar(DType::I64, 0), b.scalar(DType::I64, static_cast<double>(*width))}, DimsAttrs{{rows}, false});
  once = b.add(once, b.reshape(first, row));
  return s.replace(n, b.create(Gather, {b.reshape(x, flat), once}, AxisAttrs{static_cast<int64_t>(lead)}));
}

// A transpose among the axes that an index added is a transpose of the index.
bool transpose_of_gather(Simplifier& s, NodeId n) {
  Graph& g = s.graph();
  const NodeId gather = s.def(arg(s, n), Gather);
  if (!gather.valid() || !g.has_one_use(arg(s, n))) return false;
  const auto& perm = g.attrs<PermAttrs>(n).perm;
  const int64_t axis = g.attrs<AxisAttrs>(gather).axis, count = g.rank(arg(s, gather, 1));
  std::vector<int64_t> own;
  for (int64_t i = 0; i < static_cast<int64_t>(perm.size()); ++i) {
    const int64_t p = perm[static_cast<size_t>(i)];
    if (i < axis || i >= axis + count) {
      if (p != i) return false;
    } else {
      own.push_back(p - axis);
    }
  }
  const ValueId index = s.at(n).transpose(arg(s, gather, 1), own);
  return index.valid() && s.replace(n, s.at(n).create(Gather, {arg(s, gather), index}, AxisAttrs{axis}));
}

bool swaps_last_two(const std::vector<int64_t>& perm) {
  const auto r = static_cast<int64_t>(perm.size());
  if (r < 2 || perm[perm.size() - 1] != r - 2 || perm[perm.size() - 2] != r - 1) return false;
  return std::is_sorted(perm.begin(), perm.end() - 2);
}

// A transpose of a matmul operand becomes a flag of the matmul.
template <class A>
bool matmul_flags(Simplifier& s, NodeId n) {
  Graph& g = s.graph();
  for (size_t i = 0; i < 2; ++i) {
    const NodeId t = s.def(arg(s, n, i), Transpose);
    if (!t.valid() || !swaps_last_two(g.attrs<PermAttrs>(t).perm)) continue;
    A a = g.attrs<A>(n);
    (i ? a.trans_b : a.trans_a) ^= true;
    g.set_attrs(n, g.module().attrs.intern(a));
    return s.set_operand(n, i, g.operand(t, 0));
  }
  return false;
}

// Moves a Reshape that flattens rows behind the matmul, where it meets the inverse Reshape.
bool matmul_flattened(Simplifier& s, NodeId n) {
  Graph& g = s.graph();
  const NodeId flat = s.def(arg(s, n), Reshape);
  if (!flat.valid() || g.attrs<MatMulAttrs>(n).trans_a || g.rank(arg(s, n)) != 2 || g.rank(arg(s, n, 1)) != 2) return false;
  const ValueId x = g.operand(flat, 0);
  if (g.rank(x) < 3 || g.dims(x).back() != g.dims(arg(s, n)).back()) return false;
  const MatMulAttrs a = g.attrs<MatMulAttrs>(n);
  return s.replace(n, s.at(n).reshape(s.at(n).matmul(x, arg(s, n, 1), false, a.trans_b), sizes(s, g.result(n))));
}

// A matmul with a tiled operand [B,..] becomes a batched matmul that broadcasts it.
bool matmul_tiled(Simplifier& s, NodeId n) {
  Graph& g = s.graph();
  for (size_t i = 0; i < 2; ++i) {
    const NodeId tile = s.def(arg(s, n, i), Tile);
    if (!tile.valid() || g.rank(arg(s, n, i)) != 3 || g.rank(arg(s, n, 1 - i)) != 3) continue;
    const std::vector<Dim> times = g.attrs<DimsAttrs>(tile).dims, other = sizes(s, arg(s, n, 1 - i));
    const ValueId once = g.operand(tile, 0);
    if (times[1] != Dim(1) || times[2] != Dim(1) || !s.dims().equal(other[0], g.dims(arg(s, n, i))[0])) continue;
    const ValueId parts = s.at(n).reshape(arg(s, n, 1 - i), {times[0], g.dims(once)[0], other[1], other[2]});
    const MatMulAttrs a = g.attrs<MatMulAttrs>(n);
    const ValueId y = s.at(n).matmul(i ? parts : once, i ? once : parts, a.trans_a, a.trans_b);
    return s.replace(n, s.at(n).reshape(y, sizes(s, g.result(n))));
  }
  return false;
}

// A matmul with contracted dim 1 and a weight becomes a multiplication (rotary angles). Attention over heads of one element has
// no weight operand and stays.
bool matmul_of_one_term(Simplifier& s, NodeId n) {
  Graph& g = s.graph();
  const auto& a = g.attrs<MatMulAttrs>(n);
  const ValueId x = arg(s, n), w = arg(s, n, 1);
  if (a.trans_a || a.trans_b || g.dims(x).back() != Dim(1) || (!match::is_weight(g, x) && !match::is_weight(g, w))) return false;
  return s.replace(n, s.at(n).mul(x, w));
}

// Moves a transpose above a binary op whose operands vary along one axis each: the operands are reshaped.
bool transpose_of_outer(Simplifier& s, NodeId n) {
  Graph& g = s.graph();
  const NodeId outer = g.def(arg(s, n));
  const auto& perm = g.attrs<PermAttrs>(n).perm;
  if (!has_trait(g.op(outer), kBinary) || !g.has_one_use(arg(s, n))) return false;
  std::vector<ValueId> moved;
  for (ValueId v : g.operands(outer)) {
    std::vector<Dim> from(static_cast<size_t>(g.rank(arg(s, n))) - g.dims(v).size(), Dim(1)), to;
    from.insert(from.end(), g.dims(v).begin(), g.dims(v).end());
    if (std::ranges::count_if(from, [](Dim d) { return d != Dim(1); }) > 1) return false;
    for (int64_t axis : perm) to.push_back(from[static_cast<size_t>(axis)]);
    moved.push_back(s.at(n).reshape(v, to));
  }
  return s.replace(n, s.at(n).create(g.op(outer), moved, g.module().attrs[g.attr_id(outer)]));
}

// Moves the Reshape of flattened rows behind the addition of a row.
bool row_of_flattened(Simplifier& s, NodeId n) {
  Graph& g = s.graph();
  for (size_t i = 0; i < 2; ++i) {
    const ValueId row = arg(s, n, 1 - i);
    const NodeId flat = s.def(arg(s, n, i), Reshape);
    if (!flat.valid() || g.rank(row) > 1) continue;
    const ValueId x = g.operand(flat, 0);
    const auto from = g.dims(x), to = g.dims(arg(s, n, i));
    if (from.size() < 3 || to.size() != 2 || from.back() != to.back()) continue;
    if (g.rank(row) == 1 && g.dims(row)[0] != Dim(1) && g.dims(row)[0] != to.back()) continue;
    return s.replace(n, s.at(n).reshape(s.at(n).add(x, row), sizes(s, g.result(n))));
  }
  return false;
}

// Moves the Reshape of flattened rows behind a Quantize or Dequantize with one scale.
bool rounding_of_flattened(Simplifier& s, NodeId n) {
  Graph& g = s.graph();
  const NodeId flat = s.def(arg(s, n), Reshape);
  if (!flat.valid() || !rounds_by_one(g, n)) return false;
  const auto from = g.dims(g.operand(flat, 0)), to = g.dims(arg(s, n));
  if (from.size() < 3 || to.size() != 2 || from.back() != to.back()) return false;
  const ValueId y = rounded_alike(s.at(n), n, g.operand(flat, 0));
  return s.replace(n, s.at(n).reshape(y, sizes(s, g.result(n))));
}

// Index of the sole operand that is not a scalar, or the number of operands if there is not exactly one.
size_t moving_operand(const Graph& g, NodeId f) {
  const size_t none = g.operands(f).size();
  size_t moving = none;
  for (size_t i = 0; i < none; ++i) {
    if (g.rank(g.operand(f, i)) == 0) continue;
    if (moving != none) return none;
    moving = i;
  }
  return moving;
}

// view(f(g(view'(x)))) with elementwise f, g without other users: moves f and g first, so that the views meet.
bool swap_with_elementwise(Simplifier& s, NodeId n) {
  constexpr size_t kLongest = 16;  // bounds the walk from each view
  Graph& g = s.graph();
  std::vector<NodeId> chain;
  ValueId v = arg(s, n);
  NodeId inner;
  while (chain.size() < kLongest && g.has_one_use(v)) {
    const NodeId f = g.def(v);
    if (g.op(f) == g.op(n)) {
      inner = f;
      break;
    }
    if (!has_trait(g.op(f), kElementwise) || g.op(f) == ElementwiseRegion) return false;
    const size_t i = moving_operand(g, f);
    if (i == g.operands(f).size()) return false;
    chain.push_back(f);
    v = g.operand(f, i);
  }
  if (!inner.valid() || chain.empty()) return false;
  const ValueId x = g.operand(inner, 0), end = arg(s, n);
  std::vector<int64_t> first;
  if (g.op(n) == Transpose) first = g.attrs<PermAttrs>(inner).perm;
  const std::vector<Dim> result = sizes(s, g.result(n)), before = sizes(s, x);
  for (NodeId f : chain) g.set_type(g.result(f), g.module().types.tensor(g.dtype(g.result(f)), before));
  s.set_operand(chain.back(), moving_operand(g, chain.back()), x);
  if (g.op(n) == Reshape) return s.replace(n, s.at(n).reshape(end, result));
  std::vector<int64_t> perm;
  for (int64_t p : g.attrs<PermAttrs>(n).perm) perm.push_back(first[static_cast<size_t>(p)]);
  return s.replace(n, s.at(n).transpose(end, perm));
}

// quantize(expand(x), s) = expand(quantize(x, s)) with one scale, and dequantize alike: fewer elements are computed.
bool round_before_expand(Simplifier& s, NodeId n) {
  Graph& g = s.graph();
  const NodeId expand = g.def(arg(s, n));
  if (g.op(expand) != Expand || !rounds_by_one(g, n)) return false;
  Builder& b = s.at(n);
  const std::vector<Dim> whole = sizes(s, g.result(n));
  return s.replace(n, b.expand(rounded_alike(b, n, g.operand(expand, 0)), whole));
}

constexpr Rule kMovementRules[] = {
    {Reshape, "reshape_same", false, same_shape},
    {Reshape, "reshape_reshape", false, reshape_reshape},
    {Reshape, "reshape_uniform", false, reshape_uniform},
    {Reshape, "reshape_through_elementwise", false, swap_with_elementwise},
    {Transpose, "transpose_identity", false, transpose_identity},
    {Transpose, "transpose_transpose", false, transpose_transpose},
    {Transpose, "transpose_to_reshape", false, transpose_to_reshape},
    {Transpose, "transpose_through_elementwise", false, swap_with_elementwise},
    {Expand, "expand_same", false, same_shape},
    {Expand, "expand_expand", false, expand_expand},
    {Quantize, "quantize_before_expand", false, round_before_expand},
    {Dequantize, "dequantize_before_expand", false, round_before_expand},
    {Narrow, "narrow_full", false, narrow_full},
    {Narrow, "narrow_narrow", false, narrow_narrow},
    {Narrow, "narrow_concat", false, narrow_concat},
    {Narrow, "narrow_reshape", false, narrow_reshape},
    {Slice, "slice_to_narrow", false, slice_to_narrow},
    {Concat, "concat_one", false, concat_one},
    {Concat, "concat_parts", false, concat_parts},
    {Concat, "concat_concat", false, concat_concat},
    {Reverse, "reverse_reverse", false, reverse_reverse},
    {Pad, "pad_nothing", false, pad_nothing},
    {Pool, "pool_padded", false, pool_padded},
    {Tile, "tile_once", false, tile_once},
    {Reduce, "reduce_nothing", false, reduce_nothing},
    {Gather, "gather_one", false, gather_one},
    {Gather, "gather_all", false, gather_all},
    {Gather, "gather_repeated", false, gather_repeated},
    {GatherNd, "gather_counted", false, gather_counted},
    {GatherElements, "gather_uniform", false, gather_uniform},
    {GatherElements, "gather_elements_repeated", false, gather_elements_repeated},
    {Transpose, "transpose_of_gather", false, transpose_of_gather},
    {MatMul, "matmul_tiled", false, matmul_tiled},
    {MatMul, "matmul_transposed", false, matmul_flags<MatMulAttrs>},
    {MatMul, "matmul_flattened", false, matmul_flattened},
    {MatMul, "matmul_of_one_term", false, matmul_of_one_term},
    {Transpose, "transpose_of_outer", false, transpose_of_outer},
    {Add, "row_of_flattened", false, row_of_flattened},
    {Quantize, "rounding_of_flattened", false, rounding_of_flattened},
    {Dequantize, "rounding_of_flattened", false, rounding_of_flattened},
    {FusedMatMulBiasAct, "matmul_transposed", false, matmul_flags<FusedMatMulAttrs>},
};

}  // namespace

std::span<const Rule> movement_rules() { return kMovementRules; }

}  // namespace rlxc::simplify
