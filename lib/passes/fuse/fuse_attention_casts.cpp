// Attention of f32 queries reads keys and values of 16 bits as they are stored:
//   attention(q, cast(keys), cast(values))  ->  attention(q, keys, values)
// A cache of half the size is then not widened in memory. O(nodes).
#include "passes/match.h"
#include "passes/passes.h"

namespace rlxc {
namespace {

using namespace match;

constexpr std::string_view kAttentionCasts = "attention_casts";

bool read_narrow(Graph& g, NodeId n, PassContext& ctx) {
  const NodeId keys = defining_op(g, g.operand(n, 1), OpKind::Cast), values = defining_op(g, g.operand(n, 2), OpKind::Cast);
  if (!keys.valid() || !values.valid() || g.dtype(g.operand(n, 0)) != DType::F32) return false;
  const ValueId k = g.operand(keys, 0), v = g.operand(values, 0);
  if (g.dtype(k) != g.dtype(v) || !is_float(g, k) || bits(g.dtype(k)) != 16) return false;
  const NodeId members[] = {n, keys, values};
  const int64_t widened = bytes(g, g.result(keys)) + bytes(g, g.result(values));
  ctx.decisions.push_back(fused(g, kAttentionCasts, n, std::span(members).first(keys == values ? 2 : 3), 2 * widened));
  g.set_operand(n, 1, k);
  g.set_operand(n, 2, v);
  erase_dead(g, keys);
  if (values != keys) erase_dead(g, values);
  return true;
}

}  // namespace

PassResult fuse_attention_casts(Module& m, PassContext& ctx) {
  int64_t found = 0;
  each_graph(m, [&](Graph& g) {
    for (NodeId n : g.nodes())
      if (g.op(n) == OpKind::Attention) found += ctx.rewrite([&] { return read_narrow(g, n, ctx); });
  });
  return {found > 0, {{"attentions", found}}};
}

}  // namespace rlxc
