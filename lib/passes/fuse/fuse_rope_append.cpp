// Fuses the rotations of queries and keys and the writes of keys and values to their caches:
//   attention(rope(q), scatter(keys, at, rope(k)), scatter(values, at, v))
// gives the three operands of the attention by one FusedRopeAppend, which also rounds keys and values to caches of 16 bits.
// Declined ("rope_append") if the rotated keys have other readers, heads are normalised, or a result is read before all operands
// are computed. O(nodes + readers of the results).
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/provenance.h"

namespace rlxc {
namespace {

using namespace match;

constexpr std::string_view kRopeAppend = "rope_append";

// The rows [B or 1,1,S,1] of a scatter along axis 2 of updates [B,H,S,D]; invalid for another scatter.
ValueId rows_of(const Graph& g, NodeId scatter) {
  const auto& a = g.attrs<ScatterAttrs>(scatter);
  const NodeId expand = defining_op(g, g.operand(scatter, 1), OpKind::Expand);
  if (a.axis != 2 || a.reduction != Reduction::None || !expand.valid() || g.rank(g.result(expand)) != 4) return {};
  const ValueId at = g.operand(expand, 0);
  const auto own = g.dims(at), all = g.dims(g.result(expand));
  const bool fits = own.size() == 4 && (own[0] == 1 || own[0] == all[0]) && own[1] == 1 && own[2] == all[2] && own[3] == 1;
  return fits && g.dtype(at) == DType::I64 ? at : ValueId();
}

// Returns the updates of a scatter before their rounding to a cache of 16 bits, if they are rounded.
ValueId written(const Graph& g, NodeId scatter) {
  const ValueId updates = g.operand(scatter, 2);
  const NodeId cast = defining_op(g, updates, OpKind::Cast);
  if (!cast.valid() || bits(g.dtype(updates)) != 16 || g.dtype(g.operand(cast, 0)) != DType::F32) return updates;
  return g.has_one_use(updates) ? g.operand(cast, 0) : updates;
}

bool append(Graph& g, NodeId n, const Order& order, PassContext& ctx) {
  const NodeId q = defining_op(g, g.operand(n, 0), OpKind::Rope);
  const NodeId keys = defining_op(g, g.operand(n, 1), OpKind::ScatterElements);
  const NodeId values = defining_op(g, g.operand(n, 2), OpKind::ScatterElements);
  if (!q.valid() || !keys.valid() || !values.valid() || keys == values) return false;
  const NodeId k = defining_op(g, written(g, keys), OpKind::Rope);
  const ValueId at = rows_of(g, keys);
  if (!k.valid() || k == q || !at.valid() || rows_of(g, values) != at) return false;
  const auto refuse = [&](std::string_view reason, std::string detail) {
    return decline(ctx, g, kRopeAppend, n, reason, std::move(detail));
  };
  const RopeAttrs a = g.attrs<RopeAttrs>(q);
  const ValueId cos = g.operand(q, 1), sin = g.operand(q, 2), v = written(g, values);
  if (a.layout != AttentionLayout::BHSD || g.attr_id(q) != g.attr_id(k) || cos != g.operand(k, 1) || sin != g.operand(k, 2) ||
      g.rank(cos) > 3)
    return refuse("table_shape", "queries and keys are not rotated alike");
  if (g.operand(q, 3).valid() || g.operand(k, 3).valid()) return refuse("norm_form", "the heads are normalised");
  if (!g.has_one_use(g.result(k))) return refuse("multi_consumer", "the rotated keys are read elsewhere as well");
  NodeId last = q;
  for (NodeId part : {keys, values})
    if (order.at(part) > order.at(last)) last = part;
  for (NodeId part : {q, keys, values})
    for (const auto use : g.uses(g.result(part)))
      if (use.user != g.terminator() && order.at(use.user) <= order.at(last))
        return refuse("read_before", "a result is read before all are computed");
  Builder b(g, nullptr, g.next(last));
  const ValueId operands[] = {g.operand(q, 0), g.operand(k, 0), v, cos, sin, g.operand(keys, 0), g.operand(values, 0), at};
  const NodeId made = b.create_node(OpKind::FusedRopeAppend, operands, a);
  if (!made.valid()) return refuse("shape", "sizes of queries, keys, values and caches differ");
  const NodeId members[] = {q, k, keys, values};
  ctx.decisions.push_back(fused(g, kRopeAppend, values, members, 2 * bytes(g, g.result(k))));
  merge_origins(g, made, members);
  const ValueId old[] = {g.result(q), g.result(keys), g.result(values)};
  for (size_t i = 0; i < std::size(old); ++i) replace(g, old[i], g.result(made, i));
  return true;
}

}  // namespace

PassResult fuse_rope_append(Module& m, PassContext& ctx) {
  int64_t made = 0;
  if (!ctx.target.native.test(static_cast<size_t>(OpKind::FusedRopeAppend))) return {};
  each_graph(m, [&](Graph& g) {
    const Order order(g);
    for (NodeId n : g.nodes())
      if (g.op(n) == OpKind::Attention) made += ctx.rewrite([&] { return append(g, n, order, ctx); });
  });
  return {made > 0, {{"rope_append", made}}};
}

}  // namespace rlxc
