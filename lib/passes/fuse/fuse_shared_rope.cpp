// Merges rotations of adjacent slices of one value by the same tables (queries and keys of a packed projection) into one Rope. If
// both round their results, the merged one does so with the numbers of each head.
#include "passes/match.h"
#include "passes/passes.h"

namespace rlxc {
namespace {

using namespace match;

constexpr int kMaxParts = 16;  // limit on visited users of a packed value

// The Narrow of the last axis that a packed Rope reads; invalid if there is none.
NodeId slice_of(const Graph& g, NodeId rope) {
  const bool rotates = g.op(rope) == OpKind::Rope && g.attrs<RopeAttrs>(rope).layout == AttentionLayout::Packed;
  if (!rotates) return {};
  const NodeId narrow = defining_op(g, g.operand(rope, 0), OpKind::Narrow);
  return narrow.valid() && g.attrs<NarrowAttrs>(narrow).axis == g.rank(g.result(narrow)) - 1 ? narrow : NodeId();
}

// The concatenated norm scales of both slices; invalid if they have none.
ValueId joined_scale(Builder& b, ValueId first, Dim first_heads, ValueId second, Dim second_heads) {
  const Graph& g = b.graph();
  if (first == second && (!first.valid() || g.rank(first) == 1)) return first;
  const auto rows = [&](ValueId v, Dim heads) {
    return g.rank(v) == 2 ? v : b.expand(b.reshape(v, {1, g.dims(v)[0]}), {heads, g.dims(v)[0]});
  };
  const ValueId both[] = {rows(first, first_heads), rows(second, second_heads)};
  return b.concat(both, 0);
}

// Whether both round to one type, or neither does.
bool round_alike(const Graph& g, NodeId a, NodeId b) {
  const auto is_known = [&](NodeId n) {
    for (size_t i = kRopeFactor; i < kRopeFactor + 3; ++i)
      if (const ValueId v = g.operand(n, i); v.valid() && !is_weight(g, v)) return false;
    return true;
  };
  const bool rounds = g.operand(a, kRopeFactor + 1).valid();
  return rounds == g.operand(b, kRopeFactor + 1).valid() && g.dtype(g.result(a)) == g.dtype(g.result(b)) && is_known(a) &&
         is_known(b);
}

// The factor, scale and zero point of all heads of both slices; none if they do not round.
std::vector<ValueId> joined_rounding(Builder& b, NodeId first, Dim first_heads, NodeId second, Dim second_heads) {
  const Graph& g = b.graph();
  if (!g.operand(first, kRopeFactor + 1).valid()) return {};
  std::vector<ValueId> all;
  for (size_t i = kRopeFactor; i < kRopeFactor + 3; ++i) {
    const ValueId own[] = {g.operand(first, i), g.operand(second, i)};
    if (same_number(g, own[0], own[1])) {
      all.push_back(own[0]);
      continue;
    }
    const auto by_head = [&](ValueId v, Dim heads) {
      if (!v.valid()) v = b.scalar(DType::F32, 1);
      return num_elements(g.type(v)) == 1 ? b.expand(b.reshape(v, {1}), {heads}) : v;
    };
    all.push_back(b.concat(std::vector{by_head(own[0], first_heads), by_head(own[1], second_heads)}, 0));
  }
  return all;
}

bool merge_ropes(Graph& g, NodeId n, Order& order, PassContext& ctx) {
  DimTable& t = g.module().dims;
  const NodeId part = slice_of(g, n);
  if (!part.valid()) return false;
  const NarrowAttrs a = g.attrs<NarrowAttrs>(part);
  const ValueId packed = g.operand(part, 0);
  int looked_at = 0;
  for (const auto use : g.uses(packed)) {
    if (++looked_at > kMaxParts) break;
    if (g.op(use.user) != OpKind::Narrow || use.user == part || !g.has_one_use(g.result(use.user))) continue;
    const NodeId other_rope = g.only_user(g.result(use.user));
    if (slice_of(g, other_rope) != use.user || g.attr_id(other_rope) != g.attr_id(n)) continue;
    if (g.operand(other_rope, 1) != g.operand(n, 1) || g.operand(other_rope, 2) != g.operand(n, 2)) continue;
    if (!round_alike(g, n, other_rope)) continue;
    const ValueId gamma = g.operand(n, 3), second_gamma = g.operand(other_rope, 3);
    if (gamma.valid() != second_gamma.valid() || (gamma.valid() && !(is_weight(g, gamma) && is_weight(g, second_gamma))))
      continue;
    const NarrowAttrs second = g.attrs<NarrowAttrs>(use.user);
    if (second.axis != a.axis || !t.equal(second.start, t.add(a.start, a.len))) continue;
    const NodeId members[] = {n, other_rope};
    ctx.decisions.push_back(fused(g, "shared_rope", n, members));
    Builder b(g, nullptr, order.at(other_rope) < order.at(n) ? other_rope : n);
    for (ValueId v : {gamma, second_gamma})
      if (v.valid()) order.hoist(g, v, b.insertion_point());
    for (NodeId rope : members)
      for (size_t i = kRopeFactor; i < kRopeFactor + 3; ++i)
        if (const ValueId v = g.operand(rope, i); v.valid()) order.hoist(g, v, b.insertion_point());
    const RopeAttrs rope = g.attrs<RopeAttrs>(n);
    const Dim width(rope.head_dim);
    const Dim heads = t.floor_div(a.len, width), second_heads = t.floor_div(second.len, width);
    std::vector<ValueId> operands{b.narrow(packed, a.axis, a.start, t.add(a.len, second.len)), g.operand(n, 1), g.operand(n, 2),
                                  joined_scale(b, gamma, heads, second_gamma, second_heads)};
    const auto rounding = joined_rounding(b, n, heads, other_rope, second_heads);
    operands.insert(operands.end(), rounding.begin(), rounding.end());
    const ValueId both = b.create(OpKind::Rope, operands, rope);
    const ValueId first = b.narrow(both, a.axis, Dim(0), a.len), last = b.narrow(both, a.axis, a.len, second.len);
    replace(g, g.result(other_rope), last);
    replace(g, g.result(n), first);
    return true;
  }
  return false;
}

}  // namespace

PassResult fuse_shared_rope(Module& m, PassContext& ctx) {
  int64_t merged = 0;
  each_graph(m, [&](Graph& g) {
    Order order(g);
    for (NodeId n : g.nodes()) merged += 2 * ctx.rewrite([&] { return merge_ropes(g, n, order, ctx); });
  });
  return {merged > 0, {{"rope", merged}}};
}

}  // namespace rlxc
