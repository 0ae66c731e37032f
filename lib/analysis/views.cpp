#include "analysis/views.h"

#include <algorithm>

#include "analysis/cost.h"
#include "analysis/narrow.h"

namespace rlxc {
namespace {

constexpr size_t kFewReaders = 32;  // of a value and of all that is moved from it
constexpr size_t kMostMoves = 4;    // one after the other, from a value to a reader

using Strides = std::vector<Dim>;

Strides row_major(DimTable& dims, std::span<const Dim> shape) {
  Strides s(shape.size(), Dim(1));
  for (size_t i = shape.size(); i-- > 1;) s[i - 1] = dims.mul(s[i], shape[i]);
  return s;
}

bool has_whole_bytes(const Graph& g, ValueId v) {
  const int width = bits(g.dtype(v));
  return width > 0 && width % 8 == 0;
}

bool moves_elements(OpKind op) {
  return op == OpKind::Reshape || op == OpKind::Transpose || op == OpKind::Narrow || op == OpKind::Slice;
}

// The slice of one axis that a Narrow or Slice is.
struct Part {
  size_t axis;
  Dim start;
  int64_t step;
};
std::optional<Part> part_of(const Graph& g, NodeId n) {
  if (g.op(n) == OpKind::Narrow) {
    const auto& a = g.attrs<NarrowAttrs>(n);
    return Part{static_cast<size_t>(a.axis), a.start, 1};
  }
  if (g.op(n) != OpKind::Slice || g.attrs<SliceAttrs>(n).step < 1) return std::nullopt;
  const auto& a = g.attrs<SliceAttrs>(n);
  return Part{static_cast<size_t>(a.axis), a.start, a.step};
}

bool keeps_order(const Graph& g, NodeId n) {
  const auto& perm = g.attrs<PermAttrs>(n).perm;
  const auto dims = g.dims(g.operand(n, 0));
  int64_t last = -1;
  for (int64_t axis : perm) {
    if (dims[static_cast<size_t>(axis)] == Dim(1)) continue;
    if (axis < last) return false;
    last = axis;
  }
  return true;
}

// Does the result of a node that moves elements lie row-major, if its operand does?
bool keeps_row_major(const Graph& g, NodeId n) {
  if (g.op(n) == OpKind::Reshape) return true;
  if (g.op(n) == OpKind::Transpose) return keeps_order(g, n);
  const auto p = part_of(g, n);
  const auto d = g.dims(g.operand(n, 0));
  return p && p->step == 1 && std::ranges::all_of(d.first(p->axis), [](Dim size) { return size == Dim(1); });
}

// The strides of a reshaped value, if there are any: axes that are merged must lie together.
std::optional<Strides> reshaped(DimTable& dims, std::span<const Dim> from, const Strides& strides, std::span<const Dim> to) {
  struct Axis {
    Dim size, stride;
  };
  std::vector<Axis> old;  // without those of size 1, merged where they lie together
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i] == Dim(1)) continue;
    const bool together = !old.empty() && old.back().stride == dims.mul(from[i], strides[i]);
    if (together) old.back() = {dims.mul(old.back().size, from[i]), strides[i]};
    else old.push_back({from[i], strides[i]});
  }
  Strides out(to.size(), Dim(1));
  Dim taken(1);  // of the last of the old axes
  for (size_t i = to.size(); i-- > 0;) {
    if (to[i] == Dim(1)) continue;
    if (old.empty()) return std::nullopt;
    out[i] = dims.mul(old.back().stride, taken);
    taken = dims.mul(taken, to[i]);
    if (dims.equal(taken, old.back().size)) old.pop_back(), taken = Dim(1);
    else if (!dims.divides(taken, old.back().size)) return std::nullopt;
  }
  return old.empty() ? std::optional(out) : std::nullopt;
}

// Is v, whose rows are columns of what it is moved from, read once, by a kernel that spends no more on that than a copy would?
bool is_read_turned(const Graph& g, ValueId v) {
  const NodeId n = g.only_user(v);
  if (!n.valid() || n == g.terminator()) return false;
  const OpKind op = g.op(n);
  if (op == OpKind::LayerNorm || op == OpKind::RmsNorm) return true;
  if (op != OpKind::ElementwiseRegion) return has_trait(op, kElementwise) && is_cheap(op);
  return std::ranges::all_of(g.attrs<RegionAttrs>(n).steps, [](const RegionStep& s) { return is_cheap(s.op); });
}

// The strides of the result of a node that moves elements, of an operand with these. Nothing where elements have to be moved, or
// where those of a row would no longer follow each other for readers that need that.
std::optional<Strides> moved(const Graph& g, NodeId n, Strides s) {
  if (!has_whole_bytes(g, g.result(n))) return std::nullopt;
  if (g.op(n) == OpKind::Reshape) return reshaped(g.module().dims, g.dims(g.operand(n, 0)), s, g.dims(g.result(n)));
  if (g.op(n) == OpKind::Transpose) {
    const auto& perm = g.attrs<PermAttrs>(n).perm;
    const bool turned = !perm.empty() && perm.back() + 1 != static_cast<int64_t>(perm.size());
    if (turned && !is_read_turned(g, g.result(n))) return std::nullopt;
    Strides out;
    for (int64_t axis : perm) out.push_back(s[static_cast<size_t>(axis)]);
    return out;
  }
  const auto p = part_of(g, n);
  if (!p || (p->step != 1 && p->axis + 1 == s.size())) return std::nullopt;
  s[p->axis] = g.module().dims.mul(s[p->axis], Dim(p->step));
  return s;
}

bool all_take(const Graph& g, ValueId v, const Strides& strides, size_t moves, size_t* readers) {
  if (g.use_count(v) == 0 || g.use_count(v) > *readers || moves == 0) return false;
  *readers -= g.use_count(v);
  const auto d = g.dims(v);
  const bool rows = d.empty() || d.back() == Dim(1) || strides.back() == Dim(1);
  for (const auto use : g.uses(v)) {
    if (takes_strides(g, use, rows)) continue;
    const auto s = moves_elements(g.op(use.user)) ? moved(g, use.user, strides) : std::nullopt;
    if (!s || !all_take(g, g.result(use.user), *s, moves - 1, readers)) return false;
  }
  return true;
}

// The strides of the node's result, not row-major, with those of its operand.
std::optional<Strides> follow(const Graph& g, NodeId n, const std::optional<Strides>& operand) {
  if (operand) return moved(g, n, *operand);
  if (keeps_row_major(g, n)) return std::nullopt;
  auto s = moved(g, n, row_major(g.module().dims, g.dims(g.operand(n, 0))));
  size_t readers = kFewReaders;
  return s && all_take(g, g.result(n), *s, kMostMoves, &readers) ? s : std::nullopt;
}

}  // namespace

bool takes_strides(const Graph& g, Graph::Use use, bool rows) {
  const OpKind op = g.op(use.user);
  if (op == OpKind::Attention) return rows && use.index < 3;
  if (op == OpKind::Rope) return rows && use.index == 0;
  if (op == OpKind::LayerNorm || op == OpKind::RmsNorm) return use.index == 0;
  if (op == OpKind::MatMul || op == OpKind::FusedMatMulBiasAct) return rows && use.index < 2;
  if (op == OpKind::Concat) return g.operands(use.user).size() > 1;
  if (op == OpKind::Cast && is_narrow(g.attrs<CastAttrs>(use.user).to)) return false;
  return has_trait(op, kElementwise) && !view_of(g, use.user);
}

std::optional<std::vector<Dim>> strides_in_larger(const Graph& g, ValueId v) {
  NodeId path[kMostMoves];
  size_t moves = 0;
  for (NodeId n = g.def(v); moves < kMostMoves && moves_elements(g.op(n)); n = g.def(g.operand(n, 0))) path[moves++] = n;
  std::optional<Strides> s;
  while (moves > 0) s = follow(g, path[--moves], s);
  return s;
}

std::optional<View> view_of(const Graph& g, NodeId n) {
  const auto whole = [&](bool is_view) { return is_view ? std::optional<View>({g.operand(n, 0), Dim(0)}) : std::nullopt; };
  DimTable& dims = g.module().dims;
  switch (g.op(n)) {
    case OpKind::Reshape: return whole(true);
    case OpKind::Cast: return whole(g.dtype(g.operand(n, 0)) == g.attrs<CastAttrs>(n).to);
    case OpKind::Transpose: return whole(keeps_order(g, n) || strides_in_larger(g, g.result(n)));
    case OpKind::Expand: return whole(dims.equal(dims.product(g.dims(g.operand(n, 0))), dims.product(g.dims(g.result(n)))));
    case OpKind::Concat: return whole(g.operands(n).size() == 1);
    case OpKind::Narrow:
    case OpKind::Slice: {
      const auto p = part_of(g, n);
      const ValueId x = g.operand(n, 0);
      if (!p || !has_whole_bytes(g, x) || !(keeps_row_major(g, n) || strides_in_larger(g, g.result(n)))) return std::nullopt;
      const Strides s = strides_in_larger(g, x).value_or(row_major(dims, g.dims(x)));
      return View{x, dims.mul(dims.mul(p->start, s[p->axis]), Dim(bits(g.dtype(x)) / 8))};
    }
    default: return std::nullopt;
  }
}

ViewRoots resolve_views(const Graph& g) {
  ViewRoots r;
  r.root.resize(g.value_capacity());
  r.offset.resize(g.value_capacity());
  for (NodeId n : g.nodes()) {
    for (size_t i = 0; i < g.result_count(n); ++i) r.root[g.result(n, i).raw] = g.result(n, i);
    if (auto view = view_of(g, n)) {
      const ValueId v = g.result(n);
      r.root[v.raw] = r.root[view->of.raw];
      r.offset[v.raw] = g.module().dims.add(r.offset[view->of.raw], view->byte_offset);
    }
  }
  return r;
}

}  // namespace rlxc
