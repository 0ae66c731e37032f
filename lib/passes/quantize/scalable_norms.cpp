#include "passes/quantize/scalable_norms.h"

#include "passes/match.h"

namespace rlxc {
namespace {

bool takes_factor(const Graph& g, Graph::Use use) {
  if (use.user == g.terminator() || g.op(use.user) != OpKind::MatMul || use.index != 0) return false;
  const ValueId w = g.operand(use.user, 1);
  return !g.attrs<MatMulAttrs>(use.user).trans_a && g.rank(w) == 2 && match::is_float(g, w) && match::is_weight(g, w) &&
         g.op(g.def(w)) != OpKind::Dequantize;
}

}  // namespace

std::vector<ScalableNorm> scalable_norms(const Graph& g) {
  std::vector<ScalableNorm> all;
  for (NodeId n : g.nodes()) {
    if (g.op(n) != OpKind::LayerNorm && g.op(n) != OpKind::RmsNorm) continue;
    const ValueId y = g.result(n);
    if (g.attrs<NormAttrs>(n).axis + 1 != g.rank(y) || !match::size_at(g, y, -1)) continue;
    ScalableNorm s{n, {}};
    bool whole = true;
    for (size_t i : {size_t{1}, size_t{2}})
      whole =
          whole && (!g.operand(n, i).valid() || (match::is_weight(g, g.operand(n, i)) && match::is_row(g, g.operand(n, i), y)));
    for (const auto use : g.uses(y)) {
      whole = whole && takes_factor(g, use);
      if (!whole) break;
      s.matmuls.push_back(use.user);
    }
    if (whole && !s.matmuls.empty()) all.push_back(std::move(s));
  }
  return all;
}

}  // namespace rlxc
