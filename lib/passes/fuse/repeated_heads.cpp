#include "passes/fuse/repeated_heads.h"

#include <algorithm>

namespace rlxc::fuse {
namespace {

constexpr size_t kMostHeadMoves = 8;

bool moves_heads(OpKind op) { return op == OpKind::Reshape || op == OpKind::Transpose; }

// A factor of an axis, which has `before` * times * `after` elements.
struct Place {
  size_t axis;
  Dim before, after;
};

std::optional<size_t> only_repeated_axis(const Graph& g, NodeId expand) {
  const auto from = g.dims(g.operand(expand, 0)), to = g.dims(g.result(expand));
  std::optional<size_t> found;
  for (size_t i = 0; i < to.size(); ++i) {
    const bool repeats = i + from.size() < to.size() || (from[i + from.size() - to.size()] == Dim(1) && to[i] != Dim(1));
    if (!repeats || to[i] == Dim(1)) continue;
    if (found) return std::nullopt;
    found = i;
  }
  return found;
}

std::optional<Place> reshaped(DimTable& t, std::span<const Dim> from, std::span<const Dim> to, Dim times, const Place& p) {
  const Dim outer = t.mul(t.product(from.first(p.axis)), p.before), inner = t.mul(t.product(from.subspan(p.axis + 1)), p.after);
  for (size_t i = 0; i < to.size(); ++i) {
    const Dim head = t.product(to.first(i)), tail = t.product(to.subspan(i + 1));
    if (to[i] == Dim(1) || !t.divides(head, outer) || !t.divides(tail, inner)) continue;
    const Place at{i, t.floor_div(outer, head), t.floor_div(inner, tail)};
    if (t.equal(t.mul(t.mul(at.before, times), at.after), to[i])) return at;
  }
  return std::nullopt;
}

}  // namespace

std::optional<RepeatedHeads> repeated_heads(const Graph& g, ValueId v) {
  DimTable& t = g.module().dims;
  RepeatedHeads r;
  const auto rank = static_cast<size_t>(g.rank(v));
  for (r.expand = g.def(v); moves_heads(g.op(r.expand)) && r.moves.size() < kMostHeadMoves;
       r.expand = g.def(g.operand(r.expand, 0)))
    r.moves.insert(r.moves.begin(), r.expand);
  if (rank < 3 || g.op(r.expand) != OpKind::Expand) return std::nullopt;
  const auto first = only_repeated_axis(g, r.expand);
  if (!first) return std::nullopt;
  r.times = g.dims(g.result(r.expand))[*first];
  Place p{*first, Dim(1), Dim(1)};
  r.axes = {p.axis};
  for (NodeId n : r.moves) {
    if (g.op(n) == OpKind::Transpose) {
      const auto& perm = g.attrs<PermAttrs>(n).perm;
      p.axis = static_cast<size_t>(std::ranges::find(perm, static_cast<int64_t>(p.axis)) - perm.begin());
    } else {
      const auto next = reshaped(t, g.dims(g.operand(n, 0)), g.dims(g.result(n)), r.times, p);
      if (!next) return std::nullopt;
      p = *next;
    }
    r.axes.push_back(p.axis);
  }
  return p.axis == rank - 3 && p.after == Dim(1) ? std::optional(r) : std::nullopt;
}

ValueId distinct_heads(Builder& b, const RepeatedHeads& r) {
  const Graph& g = b.graph();
  DimTable& t = g.module().dims;
  const auto shorter = [&](NodeId n, size_t axis) {
    std::vector<Dim> dims(g.dims(g.result(n)).begin(), g.dims(g.result(n)).end());
    dims[axis] = t.floor_div(dims[axis], r.times);
    return dims;
  };
  ValueId v = b.reshape(g.operand(r.expand, 0), shorter(r.expand, r.axes[0]));
  for (size_t i = 0; i < r.moves.size(); ++i) {
    const NodeId n = r.moves[i];
    v = g.op(n) == OpKind::Transpose ? b.transpose(v, g.attrs<PermAttrs>(n).perm) : b.reshape(v, shorter(n, r.axes[i + 1]));
  }
  return v;
}

}  // namespace rlxc::fuse
