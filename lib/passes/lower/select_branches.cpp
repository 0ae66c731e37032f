// An If of at most PassOptions::unroll_max_nodes nodes computes both branches, and Where selects the results. The limit
// does not apply to targets without If. Branches must give tensors of equal types and be safe to run although they are not taken.
// O(nodes of the branches).
#include <algorithm>

#include "ir/builder.h"
#include "ir/graphs.h"
#include "passes/inline_body.h"
#include "passes/lower/speculation.h"
#include "passes/passes.h"

namespace rlxc {
namespace {

bool can_select(const Graph& g, NodeId n, uint64_t most) {
  uint64_t nodes = 0;
  for (GraphId id : g.bodies(n)) {
    const Graph& body = g.module().graph(id);
    nodes += body.live_nodes();
    if (!can_speculate(body)) return false;
    for (size_t r = 0; r < g.result_count(n); ++r)
      if (body.type_id(body.outputs()[r]) != g.type_id(g.result(n, r))) return false;
  }
  return nodes <= most;
}

void select(Graph& g, NodeId n) {
  Builder b(g, nullptr, n);
  const std::vector<ValueId> operands(g.operands(n).begin(), g.operands(n).end());
  const std::vector<GraphId> bodies(g.bodies(n).begin(), g.bodies(n).end());
  std::vector<std::vector<ValueId>> results;
  for (GraphId id : bodies) results.push_back(inline_body(g, n, g.module().graph(id), std::span(operands).subspan(1)));
  const ValueId condition = b.reshape(operands[0], {});
  for (size_t r = 0; r < g.result_count(n); ++r)
    g.replace_all_uses(g.result(n, r), b.create(OpKind::Where, {condition, results[0][r], results[1][r]}));
  g.erase(n);
  for (GraphId id : bodies) g.module().graph(id).clear();
}

}  // namespace

PassResult select_branches(Module& m, PassContext& ctx) {
  const bool lacks_if =
      !ctx.target.native.test(static_cast<size_t>(OpKind::If)) || ctx.target.decomposed.test(static_cast<size_t>(OpKind::If));
  const uint64_t most = lacks_if ? UINT64_MAX : ctx.options.unroll_max_nodes;
  if (most == 0) return {};
  int64_t selected = 0;
  // Inner branches first: those that remain keep the outer ones.
  std::vector<GraphId> graphs = graphs_in_use(m);
  std::ranges::reverse(graphs);
  for (GraphId id : graphs) {
    Graph& g = m.graph(id);
    for (NodeId n : g.nodes())
      if (g.op(n) == OpKind::If)
        selected += ctx.rewrite([&] {
          if (!can_select(g, n, most)) return false;
          select(g, n);
          return true;
        });
  }
  return {selected > 0, {{"branches_selected", selected}}};
}

}  // namespace rlxc
