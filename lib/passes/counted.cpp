#include "passes/counted.h"

#include <cmath>

#include "passes/match.h"

namespace rlxc {
namespace {

constexpr int kSteps = 24;
constexpr int64_t kElements = int64_t{1} << 24;

// A strided range of a constant, of the given shape.
struct Strided {
  const TensorData& data;
  std::span<const Dim> sizes;
  int64_t first, step;

  double at(int64_t i) const { return element_as_double(data, data.splat ? 0 : first + i * step); }

  std::optional<IndexPart> part(DimTable& t) const {
    const double start = at(0);
    if (start != std::floor(start) || std::abs(start) > 1e15) return std::nullopt;
    IndexPart p{std::nullopt, t.constant(static_cast<int64_t>(start))};
    int64_t inner = 1, size = 1, count = 1;
    for (Dim d : sizes) count *= d.size();
    for (int64_t k = 0, stride = 1; k < static_cast<int64_t>(sizes.size()); ++k) {
      const int64_t n = sizes[sizes.size() - 1 - static_cast<size_t>(k)].size();
      if (n > 1 && at(stride) != start) {
        if (p.axis) return std::nullopt;
        p.axis = static_cast<int>(k), inner = stride, size = n;
      }
      stride *= n;
    }
    for (int64_t i = 0; i < count; ++i)
      if (at(i) != start + static_cast<double>(i / inner % size)) return std::nullopt;
    return p;
  }
};

const TensorData* numbers(const Graph& g, ValueId v) {
  const TensorData* d = match::data_of(g, v);
  return d && d->elements() > 0 && d->elements() <= kElements ? d : nullptr;
}

// The axis of `to` that has the same coordinates as `axis` of `from`, both counted from the end. Nullopt if there is none.
std::optional<int> reshaped(DimTable& t, std::span<const Dim> from, std::span<const Dim> to, int axis) {
  const size_t k = from.size() - 1 - static_cast<size_t>(axis);
  const Dim before = t.product(from.first(k));
  for (size_t i = 0; i < to.size(); ++i)
    if (t.equal(to[i], from[k]) && t.equal(t.product(to.first(i)), before)) return static_cast<int>(to.size() - 1 - i);
  return std::nullopt;
}

std::optional<Counted> source(const Graph& g, ValueId v) {
  const NodeId n = g.def(v);
  if (g.op(n) == OpKind::Range) {
    const auto start = uniform_integer(g, g.operand(n, 0));
    return start && match::is_scalar(g, g.operand(n, 1), 1) ? std::optional(Counted{0, *start, v}) : std::nullopt;
  }
  const TensorData* d = numbers(g, v);
  const auto p = d ? Strided{*d, g.dims(v), 0, 1}.part(g.module().dims) : std::nullopt;
  return p && p->axis ? std::optional(Counted{*p->axis, p->start, {}}) : std::nullopt;
}

// The operand through which a counting value may pass; invalid if there is none.
ValueId counting_operand(const Graph& g, NodeId n) {
  const ValueId x = g.operands(n).empty() ? ValueId() : g.operand(n, 0);
  switch (g.op(n)) {
    case OpKind::Reshape:
    case OpKind::Expand:
    case OpKind::Transpose:
    case OpKind::Narrow: return x;
    case OpKind::Cast: return bits(g.attrs<CastAttrs>(n).to) >= 32 ? x : ValueId();
    case OpKind::Add:
      if (!uniform_integer(g, g.operand(n, 1))) return uniform_integer(g, x) ? g.operand(n, 1) : ValueId();
      return x;
    case OpKind::Sub: return uniform_integer(g, g.operand(n, 1)) ? x : ValueId();
    default: return {};
  }
}

// Maps `c` from the operand `from` to the result. Returns false if the result does not count.
bool step(const Graph& g, NodeId n, ValueId from, Counted& c) {
  DimTable& t = g.module().dims;
  const auto a = g.dims(from), b = g.dims(g.result(n));
  const Dim size = a[a.size() - 1 - static_cast<size_t>(c.axis)];
  if (size == Dim(1)) return false;  // may be repeated
  switch (g.op(n)) {
    case OpKind::Reshape: {
      const auto axis = reshaped(t, a, b, c.axis);
      if (axis) c.axis = *axis;
      return axis.has_value();
    }
    case OpKind::Transpose: {
      const auto& perm = g.attrs<PermAttrs>(n).perm;
      for (size_t i = 0; i < perm.size(); ++i)
        if (perm[i] == static_cast<int64_t>(a.size()) - 1 - c.axis) return c.axis = static_cast<int>(perm.size() - 1 - i), true;
      return false;
    }
    case OpKind::Narrow: {
      const auto& cut = g.attrs<NarrowAttrs>(n);
      if (cut.axis != static_cast<int64_t>(a.size()) - 1 - c.axis) return true;
      c.start = t.add(c.start, cut.start), c.range = {};
      return true;
    }
    case OpKind::Add:
    case OpKind::Sub: {
      const bool first = g.operand(n, 0) == from;
      const Dim by = *uniform_integer(g, g.operand(n, first ? 1 : 0));
      c.start = g.op(n) == OpKind::Add ? t.add(c.start, by) : t.sub(c.start, by), c.range = {};
      break;
    }
    default: break;
  }
  return t.equal(b[b.size() - 1 - static_cast<size_t>(c.axis)], size);
}

}  // namespace

std::optional<Dim> uniform_integer(const Graph& g, ValueId v) {
  if (const auto c = match::scalar(g, v); c && *c == std::floor(*c) && std::abs(*c) < 1e15)
    return g.module().dims.constant(static_cast<int64_t>(*c));
  for (int i = 0; i < 4; ++i) {
    const NodeId n = g.def(v);
    if (g.op(n) == OpKind::DimValue && g.attrs<DimsAttrs>(n).dims.size() == 1) return g.attrs<DimsAttrs>(n).dims[0];
    if (g.op(n) != OpKind::Reshape && g.op(n) != OpKind::Cast && g.op(n) != OpKind::Expand) break;
    v = g.operand(n, 0);
  }
  return std::nullopt;
}

std::optional<Counted> counted(const Graph& g, ValueId v) {
  std::vector<std::pair<NodeId, ValueId>> path;  // from v up to the source
  auto c = source(g, v);
  for (int i = 0; i < kSteps && !c; ++i) {
    const ValueId up = counting_operand(g, g.def(v));
    if (!up.valid()) return std::nullopt;
    path.emplace_back(g.def(v), up);
    v = up;
    c = source(g, v);
  }
  for (size_t i = path.size(); c && i-- > 0;)
    if (!step(g, path[i].first, path[i].second, *c)) return std::nullopt;
  return c;
}

std::optional<IndexPart> index_part(const Graph& g, ValueId v) {
  if (const auto c = counted(g, v)) return IndexPart{c->axis, c->start};
  const auto same = uniform_integer(g, v);
  return same ? std::optional(IndexPart{std::nullopt, *same}) : std::nullopt;
}

std::vector<IndexPart> index_parts(const Graph& g, ValueId index) {
  std::vector<IndexPart> parts;
  const auto add = [&](std::optional<IndexPart> p) {
    if (p) parts.push_back(*p);
    return p.has_value();
  };
  const auto sizes = g.dims(index);
  const NodeId n = g.def(index);
  if (sizes.empty()) return {};
  if (const TensorData* d = numbers(g, index)) {
    for (int64_t i = 0; i < sizes.back().size(); ++i)
      if (!add(Strided{*d, sizes.first(sizes.size() - 1), i, sizes.back().size()}.part(g.module().dims))) return {};
    return parts;
  }
  const bool joined = g.op(n) == OpKind::Concat && g.attrs<AxisAttrs>(n).axis == static_cast<int64_t>(sizes.size()) - 1;
  for (ValueId v : joined ? g.operands(n).copy() : std::vector{index}) {
    if (g.dims(v).back() != Dim(1)) return {};
    const auto p = index_part(g, v);
    if (!p || (p->axis && *p->axis == 0)) return {};
    add(IndexPart{p->axis ? std::optional(*p->axis - 1) : std::nullopt, p->start});
  }
  return parts;
}

}  // namespace rlxc
