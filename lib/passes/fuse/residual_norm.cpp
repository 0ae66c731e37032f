#include "passes/fuse/residual_norm.h"

#include "passes/match.h"

namespace rlxc {
namespace {

using namespace match;

bool rewrite(Graph& g, NodeId norm, OpKind kind, std::string_view pattern, Order& order, PassContext& ctx) {
  const ValueId s = g.operand(norm, 0);
  const NodeId add = defining_op(g, s, OpKind::Add);
  if (!add.valid()) return false;
  const ValueId x = g.operand(add, 0), r = g.operand(add, 1), gamma = g.operand(norm, 1), beta = g.operand(norm, 2);
  const auto decline = [&](std::string_view reason, std::string_view detail) {
    ctx.decisions.push_back(declined(g, pattern, norm, reason, std::string(detail)));
    return false;
  };
  if (!same_type(g, x, s) || !same_type(g, r, s)) {
    // an added row is a bias and a weight is no residual: not counted as missed
    return is_weight(g, x) || is_weight(g, r) ? false : decline("broadcast", "the operands of the sum differ in shape");
  }
  // If the sum has other users, the fused node is inserted at the sum, so scale and shift must exist there.
  const bool early = !g.has_one_use(s);
  if (early)
    for (ValueId v : {gamma, beta})
      if (v.valid() && !is_weight(g, v))
        return decline("runtime_scale", "scale and shift are computed after the sum, which is read elsewhere");
  const NodeId at = early ? add : norm;
  if (early)
    for (ValueId v : {gamma, beta})
      if (v.valid()) order.hoist(g, v, at);
  const NodeId members[] = {add, norm};
  Decision d = fused(g, pattern, norm, members, bytes(g, s));
  Builder b(g, nullptr, at);
  const ValueId operands[] = {x, r, ValueId(), gamma, beta};
  const NodeId n = b.create_node(kind, operands, g.attrs<NormAttrs>(norm));
  if (!n.valid()) return false;
  ctx.decisions.push_back(std::move(d));
  replace_group(g, members, g.result(norm), g.result(n, 0));
  if (g.alive(add)) replace(g, s, g.result(n, 1));
  return true;
}

}  // namespace

PassResult fuse_residual_norm(Module& m, PassContext& ctx, OpKind norm, OpKind kind, std::string_view pattern) {
  int64_t found = 0;
  if (!ctx.target.native.test(static_cast<size_t>(kind))) return {};
  each_graph(m, [&](Graph& g) {
    Order order(g);
    for (NodeId n : g.nodes())
      if (g.op(n) == norm && is_float(g, g.result(n)))
        found += ctx.rewrite([&] { return rewrite(g, n, kind, pattern, order, ctx); });
  });
  return {found > 0, {{pattern, found}}};
}

}  // namespace rlxc
