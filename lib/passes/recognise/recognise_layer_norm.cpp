#include "passes/recognise/recognise_layer_norm.h"

#include "passes/recognise/norm_match.h"

namespace rlxc {

using namespace match;
using namespace recognise;

PassResult recognise_layer_norm(Module& m, PassContext& ctx) {
  int64_t found = 0;
  each_graph(m, [&](Graph& g) {
    for (NodeId n : g.nodes()) {
      const size_t before = ctx.decisions.size();
      if (const auto e = match_expanded_layer_norm(g, n)) {
        emit_norm(g, ctx, OpKind::LayerNorm, "layer_norm", e->core.x, e->core, {g.result(n), e->gamma, e->beta, {}});
        found += static_cast<int64_t>(ctx.decisions.size() - before);
        continue;
      }
      auto core = match_norm_core(g, n);
      if (!core) continue;
      const NodeId sub = made_by(g, core->x, OpKind::Sub);
      if (!sub.valid()) continue;
      const auto mean = match_trailing_mean(g, g.operand(sub, 1));
      ValueId x = g.operand(sub, 0);
      if (!mean || mean->x != x || mean->axis != core->axis || !same_dims(g, x, core->x)) continue;
      core->nodes.insert(core->nodes.end(), {sub, mean->node});
      DType source = g.dtype(x);
      if (const NodeId cast = made_by(g, x, OpKind::Cast);
          cast.valid() && source == DType::F32 && bits(g.dtype(g.operand(cast, 0))) == 16 && is_float(g, g.operand(cast, 0))) {
        const Affine narrow = match_affine(g, g.result(n), core->axis, g.dtype(g.operand(cast, 0)), true);
        if (g.dtype(narrow.value) != source) x = g.operand(cast, 0), source = g.dtype(x);
      }
      emit_norm(g, ctx, OpKind::LayerNorm, "layer_norm", x, *core, match_affine(g, g.result(n), core->axis, source, true));
      found += static_cast<int64_t>(ctx.decisions.size() - before);
    }
  });
  return {found > 0, {{"layer_norm", found}}};
}

}  // namespace rlxc
