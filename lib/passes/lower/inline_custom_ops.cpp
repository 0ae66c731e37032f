// Replaces operations of --ops by their bodies, which later passes see whole. Bodies may contain such operations. Those with a
// kernel for the target stay. A StopGradient means something to derivatives, which have been taken: it is its operand.
// O(created nodes).
#include <algorithm>

#include "ir/graphs.h"
#include "passes/legalise/decompositions.h"
#include "passes/passes.h"

namespace rlxc {
namespace {

// Leaves the node with the kernel for this target and the body that defines its results, if it has such a kernel.
bool keep_kernel(Graph& g, NodeId n, const std::string& target) {
  CustomAttrs a = g.attrs<CustomAttrs>(n);
  const auto found = std::ranges::find(a.targets, target);
  if (found == a.targets.end()) return false;
  if (g.bodies(n).size() == 1) return true;
  a.vjp = a.jvp = a.vmap = false;
  const GraphId body = g.bodies(n)[0];
  Builder b(g, nullptr, n);
  const std::vector<ValueId> operands(g.operands(n).begin(), g.operands(n).end());
  const NodeId made = b.create_node(OpKind::CustomOp, operands, a, std::span(&body, 1));
  g.set_origin(made, g.origin(n));
  for (size_t r = 0; r < g.result_count(n); ++r) g.replace_all_uses(g.result(n, r), g.result(made, r));
  g.erase(n);
  return true;
}

}  // namespace

PassResult inline_custom_ops(Module& m, PassContext& context) {
  int64_t inlined = 0;
  for (int64_t found = -1; found != 0; inlined += found) {
    found = 0;
    for (GraphId id : graphs_in_use(m)) {
      Graph& g = m.graph(id);
      for (NodeId n : g.nodes())
        if (g.op(n) == OpKind::StopGradient || (g.op(n) == OpKind::CustomOp && !keep_kernel(g, n, context.target.name)))
          found += legalise::expand_node(g, n, legalise::decomposition(g.op(n)));
    }
  }
  return {inlined > 0, {{"nodes_inlined", inlined}}};
}

}  // namespace rlxc
