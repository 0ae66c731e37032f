// Raises chains of primitives to RmsNorm.
#include "passes/passes.h"
#include "passes/recognise/norm_match.h"

namespace rlxc {

using namespace match;
using namespace recognise;

namespace {

bool make_rms_norm(Graph& g, NodeId n, PassContext& ctx) {
  const auto core = match_norm_core(g, n);
  if (!core) return false;
  if (const NodeId sub = defining_op(g, core->x, OpKind::Sub); sub.valid()) {
    const auto mean = match_trailing_mean(g, g.operand(sub, 1));
    if (mean && mean->x == g.operand(sub, 0)) return false;  // a LayerNorm
  }
  return emit_norm(g, ctx, OpKind::RmsNorm, "rms_norm", n, core->x, *core);
}

}  // namespace

PassResult recognise_rms_norm(Module& m, PassContext& ctx) {
  int64_t found = 0;
  each_graph(m, [&](Graph& g) {
    for (NodeId n : g.nodes()) found += ctx.rewrite([&] { return make_rms_norm(g, n, ctx); });
  });
  return {found > 0, {{"rms_norm", found}}};
}

}  // namespace rlxc
