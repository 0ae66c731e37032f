// Rewrites Quantize and Dequantize with a scale per tensor or per axis as elementwise nodes, so that mark_elementwise_regions
// fuses them: a Quantize with its producers, a Dequantize with its consumers. A pair whose integers nobody else reads stays in
// floats: x = (clamp(round(x / s) + z) - z) * s. Requires a target with regions. Leaves scales of
// blocks that divide the axis, for which there are kernels. O(nodes).
#include "passes/legalise/decompositions.h"
#include "passes/match.h"
#include "passes/passes.h"

namespace rlxc {
namespace {

bool can_be_steps(Graph& g, NodeId n) {
  if (g.op(n) != OpKind::Quantize && g.op(n) != OpKind::Dequantize) return false;
  const DType q = g.dtype(g.op(n) == OpKind::Quantize ? g.result(n) : g.operand(n, 0));
  const auto& a = g.attrs<QuantAttrs>(n);
  const bool in_blocks =
      a.block != 0 && g.module().dims.divides(Dim(a.block), g.dims(g.operand(n, 0))[static_cast<size_t>(a.axis)]);
  return !in_blocks && is_integer(q) && bits(q) >= 8 && bits(q) <= 16;
}

}  // namespace

PassResult expand_q_dq(Module& m, PassContext& context) {
  int64_t expanded = 0;
  if (!context.target.native.test(static_cast<size_t>(OpKind::ElementwiseRegion))) return {};
  match::each_graph(m, [&](Graph& g) {
    for (NodeId n : g.nodes())
      if (can_be_steps(g, n))
        expanded += context.rewrite([&] {
          const ValueId codes = g.operand(n, 0);
          if (!legalise::expand_node(g, n, legalise::decomposition(g.op(n)))) return false;
          if (g.def(codes).valid() && g.alive(g.def(codes))) match::erase_dead(g, g.def(codes));  // not read in floats
          return true;
        });
  });
  return {expanded > 0, {{"expanded", expanded}}};
}

}  // namespace rlxc
