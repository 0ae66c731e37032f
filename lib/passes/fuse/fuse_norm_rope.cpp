// Fuses RmsNorm over heads (of queries and keys) into the Rope that reads it: the Rope takes the scale of the norm. O(nodes).
#include "passes/match.h"
#include "passes/passes.h"

namespace rlxc {
namespace {

using namespace match;

// The heads [B,S,H,D] of a packed value [B,S,H*D], or the value itself. Invalid if there is no matching Reshape.
ValueId split_heads(const Graph& g, ValueId x, const RopeAttrs& a) {
  if (a.layout != AttentionLayout::Packed) return x;
  const NodeId n = defining_op(g, x, OpKind::Reshape);
  if (!n.valid() || !g.has_one_use(x)) return {};
  const ValueId heads = g.operand(n, 0);
  const auto d = g.dims(heads), packed = g.dims(x);
  return d.size() == 4 && d[0] == packed[0] && d[1] == packed[1] && d[3] == Dim(a.head_dim) ? heads : ValueId();
}

// Reshapes v; reuses the operand if v is a Reshape of a value with these dims.
ValueId as_dims(Builder& b, ValueId v, std::span<const Dim> dims) {
  const Graph& g = b.graph();
  if (const NodeId n = defining_op(g, v, OpKind::Reshape); n.valid() && std::ranges::equal(g.dims(g.operand(n, 0)), dims))
    return g.operand(n, 0);
  return b.reshape(v, {dims.begin(), dims.end()});
}

int64_t fuse_norm(Graph& g, NodeId n, PassContext& ctx) {
  RopeAttrs a = g.attrs<RopeAttrs>(n);
  if (g.operand(n, 3).valid()) return 0;
  const ValueId heads = split_heads(g, g.operand(n, 0), a);
  const NodeId norm = defining_op(g, heads, OpKind::RmsNorm);
  if (!norm.valid()) return 0;
  const auto decline = [&](std::string_view reason, std::string detail) {
    ctx.decisions.push_back(declined(g, "norm_rope", n, reason, std::move(detail)));
    return 0;
  };
  ValueId gamma = g.operand(norm, 1);
  const Dim width = g.dims(heads).back();
  if (g.rank(heads) != 4 || g.attrs<NormAttrs>(norm).axis != 3 || g.operand(norm, 2).valid() || !width.is_static() ||
      (gamma.valid() && (g.rank(gamma) != 1 || g.dims(gamma)[0] != width)))
    return decline("norm_form", "the norm is not one of heads without shift");
  if (a.n_rot != 0 && Dim(a.n_rot) != width) return decline("partial_rotation", "a part of each head is not rotated");
  if (!g.has_one_use(heads)) return decline("multi_consumer", "the norm is read elsewhere as well");
  const NodeId members[] = {norm, n};
  ctx.decisions.push_back(fused(g, "norm_rope", n, members, 2 * bytes(g, heads)));
  a.eps = g.attrs<NormAttrs>(norm).eps;
  Builder b(g, nullptr, n);
  const DType t = g.dtype(heads);
  if (!gamma.valid()) gamma = b.constant(make_splat(t, {width.size()}, element_bytes(t, 1)));  // a dropped scale of ones
  const ValueId x = as_dims(b, g.operand(norm, 0), g.dims(g.operand(n, 0)));
  replace_group(g, members, g.result(n), b.create(OpKind::Rope, {x, g.operand(n, 1), g.operand(n, 2), gamma}, a));
  return 1;
}

}  // namespace

PassResult fuse_norm_rope(Module& m, PassContext& ctx) {
  int64_t found = 0;
  each_graph(m, [&](Graph& g) {
    for (NodeId n : g.nodes())
      if (g.op(n) == OpKind::Rope) found += ctx.rewrite([&] { return fuse_norm(g, n, ctx); });
  });
  return {found > 0, {{"norm_rope", found}}};
}

}  // namespace rlxc
