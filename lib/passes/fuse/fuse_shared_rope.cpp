#include "passes/fuse/fuse_shared_rope.h"

#include "passes/match.h"

namespace rlxc {
namespace {

using namespace match;

constexpr int kMaxParts = 16;  // readers of a packed value that are looked at

// A packed Rope of a Narrow of the last axis.
NodeId slice_of(const Graph& g, NodeId rope) {
  if (g.op(rope) != OpKind::Rope || g.attrs<RopeAttrs>(rope).layout != AttentionLayout::Packed) return {};
  const NodeId narrow = made_by(g, g.operand(rope, 0), OpKind::Narrow);
  return narrow.valid() && g.attrs<NarrowAttrs>(narrow).axis == g.rank(g.result(narrow)) - 1 ? narrow : NodeId();
}

}  // namespace

PassResult fuse_shared_rope(Module& m, PassContext& ctx) {
  int64_t merged = 0;
  each_graph(m, [&](Graph& g) {
    DimTable& t = m.dims;
    const Order order(g);
    for (NodeId n : g.nodes()) {
      const NodeId part = slice_of(g, n);
      if (!part.valid()) continue;
      const NarrowAttrs a = g.attrs<NarrowAttrs>(part);
      const ValueId packed = g.operand(part, 0);
      int looked_at = 0;
      for (const auto use : g.uses(packed)) {
        if (++looked_at > kMaxParts) break;
        if (g.op(use.user) != OpKind::Narrow || use.user == part || !g.has_one_use(g.result(use.user))) continue;
        const NodeId other_rope = g.only_user(g.result(use.user));
        if (slice_of(g, other_rope) != use.user || g.attr_id(other_rope) != g.attr_id(n)) continue;
        if (g.operand(other_rope, 1) != g.operand(n, 1) || g.operand(other_rope, 2) != g.operand(n, 2)) continue;
        const NarrowAttrs second = g.attrs<NarrowAttrs>(use.user);
        if (second.axis != a.axis || !t.equal(second.start, t.add(a.start, a.len))) continue;
        const NodeId members[] = {n, other_rope};
        ctx.decisions.push_back(fused(g, "shared_rope", n, members));
        Builder b(g, nullptr, order.at(other_rope) < order.at(n) ? other_rope : n);
        const ValueId both = b.create(
            OpKind::Rope, {b.narrow(packed, a.axis, a.start, t.add(a.len, second.len)), g.operand(n, 1), g.operand(n, 2)},
            g.attrs<RopeAttrs>(n));
        const ValueId first = b.narrow(both, a.axis, Dim(0), a.len), last = b.narrow(both, a.axis, a.len, second.len);
        replace(g, g.result(other_rope), last);
        replace(g, g.result(n), first);
        merged += 2;
        break;
      }
    }
  });
  return {merged > 0, {{"rope", merged}}};
}

}  // namespace rlxc
