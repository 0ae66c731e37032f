// Hosts send whole buffers: part p of a buffer goes to device p. A reduce_scatter or all_to_all along another axis than the first
// becomes one of a leading axis of devices, with transposes around it. What is received can be spread: an all_gather stays.
// Hosts sum numbers of C: means become sums, and 16-bit floats are summed in f32.
// O(nodes).
#include <numeric>

#include "ir/mesh.h"
#include "passes/passes.h"

namespace rlxc {
namespace {

// Dims before, on and after an axis that consists of blocks.
struct AxisSplit {
  Dim outer, n, inner;
};
AxisSplit split_axis(DimTable& t, std::span<const Dim> dims, int64_t axis, int64_t blocks) {
  const auto at = static_cast<size_t>(axis);
  return {t.mul(t.product(dims.first(at)), Dim(blocks)), t.floor_div(dims[at], Dim(blocks)), t.product(dims.subspan(at + 1))};
}

CollectiveAttrs along_front(CollectiveAttrs a) {
  a.axis = a.to = 0;
  a.blocks = 1;
  return a;
}

// Both return the value of the result of `n`, perhaps with other dims.
ValueId scatter(Builder& b, const Graph& g, NodeId n, const CollectiveAttrs& a, int64_t devices) {
  const AxisSplit s = split_axis(b.dims(), g.dims(g.operand(n, 0)), a.axis, a.blocks);
  const Dim run = b.dims().mul(b.dims().floor_div(s.n, Dim(devices)), s.inner);
  const ValueId v = b.transpose(b.reshape(g.operand(n, 0), {s.outer, Dim(devices), run}), {1, 0, 2});
  return b.create(OpKind::ReduceScatter, {v}, along_front(a));
}

ValueId exchange(Builder& b, const Graph& g, NodeId n, const CollectiveAttrs& a, int64_t devices) {
  std::vector<Dim> dims(g.dims(g.operand(n, 0)).begin(), g.dims(g.operand(n, 0)).end());
  const auto cut = static_cast<size_t>(a.axis), join = static_cast<size_t>(a.to);
  std::vector<Dim> split = dims;
  split[cut] = b.dims().floor_div(split[cut], Dim(devices));
  split.insert(split.begin() + a.axis, Dim(devices));
  std::vector<int64_t> perm(split.size());
  std::iota(perm.begin(), perm.end(), 0);
  perm.erase(perm.begin() + a.axis);
  perm.insert(perm.begin(), a.axis);
  ValueId v = b.transpose(b.reshape(g.operand(n, 0), split), perm);
  v = b.create(OpKind::AllToAll, {v}, along_front(a));
  std::iota(perm.begin(), perm.end(), 0);
  perm.erase(perm.begin());
  perm.insert(perm.begin() + static_cast<std::ptrdiff_t>(join), 0);
  return b.transpose(v, perm);
}

// Sums of numbers of C for the others.
bool rewrite_sum(Graph& g, NodeId n, const CollectiveGroup& group) {
  CollectiveAttrs a = g.attrs<CollectiveAttrs>(n);
  const DType t = g.dtype(g.result(n));
  const bool narrow = t == DType::F16 || t == DType::BF16;
  if (!narrow && a.op != ReduceOp::Mean) return false;
  const double scale = a.op == ReduceOp::Mean ? 1 / static_cast<double>(group.size()) : 1;
  if (a.op == ReduceOp::Mean) a.op = ReduceOp::Sum;
  Builder b(g, nullptr, n);
  b.set_node_name(g.node_name(n));
  ValueId v = b.create(g.op(n), {narrow ? b.cast(g.operand(n, 0), DType::F32) : g.operand(n, 0)}, a);
  if (!v.valid()) return false;
  if (scale != 1) v = b.mul(v, b.scalar(g.dtype(v), scale));
  g.replace_all_uses(g.result(n), b.cast(v, t));
  g.erase(n);
  return true;
}

bool rewrite_collective(Graph& g, NodeId n) {
  const OpKind op = g.op(n);
  if (op != OpKind::ReduceScatter && op != OpKind::AllToAll) return false;
  const CollectiveAttrs a = g.attrs<CollectiveAttrs>(n);
  Builder b(g, nullptr, n);
  const Dim outer = split_axis(b.dims(), g.dims(g.operand(n, 0)), a.axis, a.blocks).outer;
  const bool in_front = op == OpKind::AllToAll ? a.axis == a.to && outer == Dim(1) : outer == Dim(1);
  std::string message;
  const auto group = group_of(a, &message);
  if (in_front || !group) return false;
  b.set_node_name(g.node_name(n));
  const auto make = op == OpKind::ReduceScatter ? scatter : exchange;
  const std::vector<Dim> dims(g.dims(g.result(n)).begin(), g.dims(g.result(n)).end());
  const ValueId v = b.reshape(make(b, g, n, a, group->size()), dims);
  if (!v.valid()) return false;
  g.replace_all_uses(g.result(n), v);
  g.erase(n);
  return true;
}

}  // namespace

PassResult lower_collectives(Module& m, PassContext&) {
  PassResult result;
  Graph& g = m.main();
  for (NodeId n : g.nodes()) {
    std::string message;
    const bool sums = g.op(n) == OpKind::AllReduce || g.op(n) == OpKind::ReduceScatter;
    const auto group = sums ? group_of(g.attrs<CollectiveAttrs>(n), &message) : std::nullopt;
    result.changed |= group && rewrite_sum(g, n, *group);
  }
  for (NodeId n : g.nodes()) result.changed |= rewrite_collective(g, n);
  return result;
}

}  // namespace rlxc
