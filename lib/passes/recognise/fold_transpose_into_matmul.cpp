#include "passes/recognise/fold_transpose_into_matmul.h"

#include "passes/match.h"

namespace rlxc {
namespace {

// The operand of a Transpose that swaps the last two axes and leaves the others.
ValueId swapped(const Graph& g, ValueId v) {
  const NodeId n = match::made_by(g, v, OpKind::Transpose);
  if (!n.valid() || g.rank(v) < 2) return {};
  const auto& perm = g.attrs<PermAttrs>(n).perm;
  const size_t r = perm.size();
  for (size_t i = 0; i + 2 < r; ++i)
    if (perm[i] != static_cast<int64_t>(i)) return {};
  return perm[r - 2] == static_cast<int64_t>(r - 1) ? g.operand(n, 0) : ValueId();
}

}  // namespace

PassResult fold_transpose_into_matmul(Module& m, PassContext& ctx) {
  int64_t folded = 0;
  match::each_graph(m, [&](Graph& g) {
    for (NodeId n : g.nodes()) {
      if (g.op(n) != OpKind::MatMul) continue;
      for (size_t i = 0; i < 2; ++i) {
        ValueId v, plain;
        while ((plain = swapped(g, v = g.operand(n, i))).valid()) {
          MatMulAttrs a = g.attrs<MatMulAttrs>(n);
          (i == 0 ? a.trans_a : a.trans_b) ^= true;
          const NodeId members[] = {g.def(v), n};
          ctx.decisions.push_back(match::fused(g, "transpose_flag", n, members, match::is_weight(g, v) ? 0 : 2 * match::bytes(g, v)));
          g.set_attrs(n, m.attrs.intern(a));
          g.set_operand(n, i, plain);
          match::sweep(g, g.def(v));
          ++folded;
        }
      }
    }
  });
  return {folded > 0, {{"transpose", folded}}};
}

}  // namespace rlxc
