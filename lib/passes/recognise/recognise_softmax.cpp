// Raises exp(x-max)/sum(exp(x-max)) along one axis to Softmax.
#include "passes/match.h"
#include "passes/passes.h"

namespace rlxc {
namespace {

using namespace match;

// The axis over which `v` reduces `of` by `op`, keeping the dim.
std::optional<int64_t> reduced_axis(const Graph& g, ValueId v, ReduceOp op, ValueId of) {
  const NodeId n = defining_op(g, v, OpKind::Reduce);
  if (!n.valid() || g.operand(n, 0) != of) return std::nullopt;
  const auto& a = g.attrs<ReduceAttrs>(n);
  return a.op == op && a.keep_dim && a.axes.size() == 1 ? std::optional(a.axes[0]) : std::nullopt;
}

bool make_softmax(Graph& g, NodeId n, PassContext& ctx) {
  const ValueId e = g.operand(n, 0);
  const NodeId exp = defining_op(g, e, OpKind::Exp);
  if (!exp.valid()) return false;
  const NodeId sub = defining_op(g, g.operand(exp, 0), OpKind::Sub);
  const auto axis = reduced_axis(g, g.operand(n, 1), ReduceOp::Sum, e);
  if (!sub.valid() || !axis || reduced_axis(g, g.operand(sub, 1), ReduceOp::Max, g.operand(sub, 0)) != axis) return false;
  const NodeId members[] = {g.def(g.operand(sub, 1)), sub, exp, g.def(g.operand(n, 1)), n};
  ctx.decisions.push_back(fused(g, "softmax", n, members));
  Builder b(g, nullptr, n);
  replace(g, g.result(n), b.create(OpKind::Softmax, {g.operand(sub, 0)}, AxisAttrs{*axis}));
  return true;
}

}  // namespace

PassResult recognise_softmax(Module& m, PassContext& ctx) {
  int64_t found = 0;
  each_graph(m, [&](Graph& g) {
    for (NodeId n : g.nodes())
      if (g.op(n) == OpKind::Div && is_float(g, g.result(n))) found += ctx.rewrite([&] { return make_softmax(g, n, ctx); });
  });
  return {found > 0, {{"softmax", found}}};
}

}  // namespace rlxc
