// Raises GroupNorm from its exported form: an instance norm with groups as channels, then scale and shift per channel.
#include "passes/match.h"
#include "passes/passes.h"

namespace rlxc {
namespace {

using namespace match;

// The sole user of v, if it has this kind and combines v with a weight per channel, and the weight.
std::pair<NodeId, ValueId> channelwise(const Graph& g, ValueId v, OpKind op) {
  const NodeId n = g.only_user(v);
  if (!n.valid() || g.op(n) != op) return {};
  const ValueId w = other(g, n, v);
  if (!w.valid() || !per_channel(g, w, v)) return {};
  return {n, w};
}

bool absent_or(const Graph& g, ValueId v, double c) { return !v.valid() || is_scalar(g, v, c); }

// n normalises [N,groups,..] with groups as channels; its sole user reshapes back to the shape of x.
bool make_group_norm(Graph& g, NodeId n, PassContext& ctx) {
  const NodeId split = defining_op(g, g.operand(n, 0), OpKind::Reshape), back = g.only_user(g.result(n));
  if (!split.valid() || !back.valid() || g.op(back) != OpKind::Reshape) return false;
  const GroupNormAttrs a = g.attrs<GroupNormAttrs>(n);
  const ValueId x = g.operand(split, 0);
  const auto d = g.dims(x), s = g.dims(g.result(split));
  if (d.size() < 3 || s.size() < 3 || !same_type(g, x, g.result(back)) || d[0] != s[0] || s[1] != Dim(a.groups)) return false;
  const auto channels = size_at(g, x, 1);
  if (!channels || *channels % a.groups != 0 || !absent_or(g, g.operand(n, 1), 1) || !absent_or(g, g.operand(n, 2), 0))
    return false;
  std::vector<NodeId> members{n};
  ValueId y = g.result(back), gamma, beta;
  if (const auto [mul, w] = channelwise(g, y, OpKind::Mul); mul.valid()) gamma = w, y = g.result(mul), members.push_back(mul);
  if (const auto [add, w] = channelwise(g, y, OpKind::Add); add.valid()) beta = w, y = g.result(add), members.push_back(add);
  Builder b(g, nullptr, g.def(y));
  const auto row = [&](ValueId v) { return v.valid() ? b.reshape(v, {*channels}) : ValueId(); };
  const ValueId r = b.create(OpKind::GroupNorm, {x, row(gamma), row(beta)}, a);
  if (!r.valid()) return false;
  ctx.decisions.push_back(fused(g, "group_norm", n, members, 2 * static_cast<int64_t>(members.size() - 1) * bytes(g, y)));
  replace(g, y, r);
  return true;
}

}  // namespace

PassResult recognise_group_norm(Module& m, PassContext& ctx) {
  int64_t found = 0;
  each_graph(m, [&](Graph& g) {
    for (NodeId n : g.nodes())
      if (g.op(n) == OpKind::GroupNorm) found += ctx.rewrite([&] { return make_group_norm(g, n, ctx); });
  });
  return {found > 0, {{"group_norm", found}}};
}

}  // namespace rlxc
