// Raises GroupNorm from its exported form: an instance norm with groups as channels, then scale and shift per channel.
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/quantize/roundings.h"

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

constexpr size_t kMostBeside = 8;  // Quantizes and Dequantizes on one side of a norm

// The nodes that round v by one scale, last first, and the value above them.
std::pair<std::vector<NodeId>, ValueId> roundings_above(const Graph& g, ValueId v) {
  std::vector<NodeId> nodes;
  for (NodeId n = g.def(v); nodes.size() < kMostBeside && rounds_by_one(g, n); n = g.def(v)) {
    nodes.push_back(n);
    v = g.operand(n, 0);
  }
  return {nodes, v};
}
// Those that alone read v, first first, and the value below them.
std::pair<std::vector<NodeId>, ValueId> roundings_below(const Graph& g, ValueId v) {
  std::vector<NodeId> nodes;
  for (NodeId n = g.only_user(v); n.valid() && n != g.terminator() && nodes.size() < kMostBeside && rounds_by_one(g, n);
       n = g.only_user(v)) {
    nodes.push_back(n);
    v = g.result(n);
  }
  return {nodes, v};
}
// n normalises [N,groups,..] with groups as channels; its sole user reshapes back to the shape of x. Q/DQ pairs with one scale
// may be between.
bool make_group_norm(Graph& g, NodeId n, PassContext& ctx) {
  const auto [above, flat] = roundings_above(g, g.operand(n, 0));
  const auto [below, last] = roundings_below(g, g.result(n));
  const NodeId split = defining_op(g, flat, OpKind::Reshape), back = g.only_user(last);
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
  if (const auto [mul, w] = channelwise(g, y, OpKind::Mul); mul.valid() && below.empty()) {
    gamma = w;
    y = g.result(mul);
    members.push_back(mul);
  }
  if (const auto [add, w] = channelwise(g, y, OpKind::Add); add.valid() && below.empty()) {
    beta = w;
    y = g.result(add);
    members.push_back(add);
  }
  Builder b(g, nullptr, g.def(y));
  const auto row = [&](ValueId v) { return v.valid() ? b.reshape(v, {*channels}) : ValueId(); };
  ValueId r = x;
  for (size_t i = above.size(); i-- > 0;) r = rounded_alike(b, above[i], r);
  r = b.create(OpKind::GroupNorm, {r, row(gamma), row(beta)}, a);
  if (!r.valid()) return false;
  for (NodeId q : below) r = rounded_alike(b, q, r);
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
