// Fuses Conv or ConvTranspose with its epilogue: a residual of the same shape and an activation that the target supports.
#include "passes/fuse/epilogue.h"
#include "passes/passes.h"

namespace rlxc {
namespace {

using namespace match;
using namespace fuse;

OpKind fused_kind(OpKind conv) { return conv == OpKind::Conv ? OpKind::FusedConvBiasAct : OpKind::FusedConvTransposeBiasAct; }

bool fuse_conv(Graph& g, NodeId n, PassContext& ctx) {
  ValueId value = g.result(n), residual;
  std::vector<NodeId> members{n};
  Epilogue act;
  NodeId moved;  // an activation behind layout ops
  const size_t first = ctx.decisions.size();
  if (const auto r = match_residual(g, value)) {
    residual = r->residual;
    value = g.result(r->node);
    members.push_back(r->node);
  }
  if (const auto e = take_epilogue(g, value, n, "conv_bias_act", ctx)) {
    act = e->act;
    members.push_back(e->node);
    if (g.operand(e->node, 0) == value) value = g.result(e->node);
    else moved = e->node;
  }
  if (members.size() == 1) return false;
  Builder b(g, nullptr, g.def(value));
  const ValueId y = b.create(fused_kind(g.op(n)), {g.operand(n, 0), g.operand(n, 1), g.operand(n, 2), residual},
                             FusedConvAttrs{g.attrs<ConvAttrs>(n), act});
  if (!y.valid()) return false;
  Decision d = fused(g, "conv_bias_act", n, members, 2 * static_cast<int64_t>(members.size() - 1) * bytes(g, g.result(n)));
  if (act.has) d.detail = name(act.op);
  record_before(ctx, first, std::move(d));
  replace_group(g, members, value, y);
  if (moved.valid()) bypass(g, moved);
  return true;
}

}  // namespace

PassResult fuse_conv_bias_act(Module& m, PassContext& ctx) {
  int64_t found = 0;
  each_graph(m, [&](Graph& g) {
    for (NodeId n : g.nodes())
      if ((g.op(n) == OpKind::Conv || g.op(n) == OpKind::ConvTranspose) && is_float(g, g.result(n)) &&
          ctx.target.native.test(static_cast<size_t>(fused_kind(g.op(n)))))
        found += ctx.rewrite([&] { return fuse_conv(g, n, ctx); });
  });
  return {found > 0, {{"conv_bias_act", found}}};
}

}  // namespace rlxc
