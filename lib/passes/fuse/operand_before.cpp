#include "passes/fuse/operand_before.h"

#include <algorithm>

#include "passes/match.h"

namespace rlxc::fuse {

using namespace match;

namespace {

bool are_slices(const Graph& g, std::span<const NodeId> moves) {
  return std::ranges::all_of(moves, [&](NodeId n) { return g.op(n) == OpKind::Narrow; });
}

// The axis of the operand that a slice cuts; none if the operand is one number along it.
std::optional<size_t> cut_axis(const Graph& g, ValueId operand, NodeId n) {
  const int64_t axis = g.attrs<NarrowAttrs>(n).axis - g.rank(g.result(n)) + g.rank(operand);
  if (axis < 0 || g.dims(operand)[static_cast<size_t>(axis)] == Dim(1)) return std::nullopt;
  return static_cast<size_t>(axis);
}

bool is_static(const Graph& g, ValueId v) {
  return std::ranges::all_of(g.dims(v), [](Dim d) { return d.is_static() && d != Dim(0); });
}

bool keeps_last_axis(const Graph& g, NodeId n) {
  const auto from = g.dims(g.operand(n, 0)), to = g.dims(g.result(n));
  if (from.empty() || to.empty()) return false;
  if (g.op(n) == OpKind::Transpose) return g.attrs<PermAttrs>(n).perm.back() + 1 == std::ssize(to);
  return from.back() == to.back();
}

// The operand before a slice.
ValueId before_slice(Builder& b, ValueId v, NodeId n) {
  const Graph& g = b.graph();
  const auto& a = g.attrs<NarrowAttrs>(n);
  const auto axis = cut_axis(g, v, n);
  if (!axis) return v;
  const Dim whole = g.dims(g.operand(n, 0))[static_cast<size_t>(a.axis)], own = g.dims(g.result(n))[static_cast<size_t>(a.axis)];
  std::vector<Dim> dims(g.dims(v).begin(), g.dims(v).end());
  const auto ones = [&](int64_t size) {
    dims[*axis] = Dim(size);
    return b.expand(b.scalar(g.dtype(v), 1), dims);
  };
  std::vector<ValueId> parts;
  if (a.start != Dim(0)) parts.push_back(ones(a.start.size()));
  parts.push_back(v);
  if (const int64_t rest = whole.size() - own.size() - a.start.size(); rest > 0) parts.push_back(ones(rest));
  return parts.size() == 1 ? v : b.concat(parts, static_cast<int64_t>(*axis));
}

}  // namespace

bool has_operand_before(const Graph& g, ValueId operand, std::span<const NodeId> moves) {
  const bool slices = are_slices(g, moves);
  if (slices && std::ranges::none_of(moves, [&](NodeId n) { return cut_axis(g, operand, n).has_value(); })) return true;
  if (!is_weight(g, operand) || !is_static(g, operand)) return false;
  if (!std::ranges::all_of(moves, [&](NodeId n) { return is_static(g, g.operand(n, 0)) && is_static(g, g.result(n)); }))
    return false;
  if (!std::ranges::all_of(moves,
                           [&](NodeId n) { return g.op(n) != OpKind::Narrow || g.attrs<NarrowAttrs>(n).start.is_static(); }))
    return false;
  if (slices) return true;
  const auto dims = g.dims(operand);
  return (dims.empty() || dims.back() == Dim(1)) && std::ranges::all_of(moves, [&](NodeId n) {
           return g.op(n) == OpKind::Narrow ? g.attrs<NarrowAttrs>(n).axis + 1 < g.rank(g.result(n)) : keeps_last_axis(g, n);
         });
}

ValueId operand_before(Builder& b, ValueId v, std::span<const NodeId> moves) {
  const Graph& g = b.graph();
  const auto rows_of = [&](ValueId of) {
    std::vector<Dim> dims(g.dims(of).begin(), g.dims(of).end());
    dims.back() = Dim(1);
    return dims;
  };
  if (!are_slices(g, moves)) v = b.expand(v, rows_of(g.result(moves.back())));
  for (auto n = moves.rbegin(); n != moves.rend(); ++n) {
    if (g.op(*n) == OpKind::Narrow) {
      v = before_slice(b, v, *n);
    } else if (g.op(*n) == OpKind::Reshape) {
      v = b.reshape(v, rows_of(g.operand(*n, 0)));
    } else {
      const auto& perm = g.attrs<PermAttrs>(*n).perm;
      std::vector<int64_t> back(perm.size());
      for (size_t i = 0; i < perm.size(); ++i) back[static_cast<size_t>(perm[i])] = static_cast<int64_t>(i);
      v = b.transpose(v, back);
    }
  }
  return v;
}

ValueId operand_of_slices(Builder& b, std::span<const NodeId> slices, std::span<const ValueId> operands) {
  const Graph& g = b.graph();
  std::vector<size_t> order(slices.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto start = [&](size_t i) { return g.attrs<NarrowAttrs>(slices[i]).start.size(); };
  std::ranges::sort(order, {}, start);
  std::vector<ValueId> parts;
  int64_t done = 0;
  const auto fill = [&](int64_t to) {
    if (to > done) parts.push_back(b.expand(b.scalar(g.dtype(operands[0]), 1), {Dim(to - done)}));
  };
  for (const size_t i : order) {
    const Dim columns = g.dims(g.result(slices[i])).back();
    fill(start(i));
    const bool one = num_elements(g.type(operands[i])) == 1;
    parts.push_back(one ? b.expand(b.reshape(operands[i], {Dim(1)}), {columns}) : b.reshape(operands[i], {columns}));
    done = start(i) + columns.size();
  }
  fill(g.dims(g.operand(slices[0], 0)).back().size());
  return parts.size() == 1 ? parts[0] : b.concat(parts, 0);
}

}  // namespace rlxc::fuse
