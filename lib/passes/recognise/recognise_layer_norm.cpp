// Raises chains of primitives to LayerNorm.
#include "passes/passes.h"
#include "passes/recognise/norm_match.h"

namespace rlxc {

using namespace match;
using namespace recognise;

namespace {

bool make_layer_norm(Graph& g, NodeId n, PassContext& ctx) {
  if (const auto e = match_expanded_layer_norm(g, n))
    return emit_norm(g, ctx, OpKind::LayerNorm, "layer_norm", e->core.x, e->core, {g.result(n), e->gamma, e->beta, {}});
  auto core = match_norm_core(g, n);
  if (!core) return false;
  const NodeId sub = defining_op(g, core->x, OpKind::Sub);
  if (!sub.valid()) return false;
  const auto mean = match_trailing_mean(g, g.operand(sub, 1));
  const ValueId x = g.operand(sub, 0);
  if (!mean || mean->x != x || mean->axis != core->axis || !same_dims(g, x, core->x)) return false;
  core->nodes.insert(core->nodes.end(), {sub, mean->node});
  return emit_norm(g, ctx, OpKind::LayerNorm, "layer_norm", n, x, *core);
}

}  // namespace

PassResult recognise_layer_norm(Module& m, PassContext& ctx) {
  int64_t found = 0;
  each_graph(m, [&](Graph& g) {
    for (NodeId n : g.nodes()) found += ctx.rewrite([&] { return make_layer_norm(g, n, ctx); });
  });
  return {found > 0, {{"layer_norm", found}}};
}

}  // namespace rlxc
