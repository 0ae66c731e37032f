#include "passes/simplify/dead_code_elimination.h"

#include <algorithm>

#include "passes/graphs.h"

namespace rlxc {
namespace {

bool has_uses(const Graph& g, NodeId n) {
  for (size_t r = 0; r < g.result_count(n); ++r)
    if (g.use_count(g.result(n, r)) > 0) return true;
  return false;
}

// Drops the captures of `n` that no body reads. Returns how many.
int64_t drop_unread_captures(Graph& g, NodeId n) {
  Module& m = g.module();
  const Captures c = captures(g, n);
  std::vector<ValueId> kept(g.operands(n).begin(), g.operands(n).end());
  int64_t dropped = 0;
  for (size_t i = kept.size(); i-- > c.first;) {
    const size_t input = i - c.input_offset;
    const bool read =
        std::ranges::any_of(g.bodies(n), [&](GraphId b) { return has_uses(m.graph(b), m.graph(b).inputs()[input]); });
    if (read) continue;
    for (GraphId b : g.bodies(n)) {
      Graph& body = m.graph(b);
      const NodeId leaf = body.inputs()[input];
      body.remove_input(leaf);
      body.erase(leaf);
    }
    kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(i));
    ++dropped;
  }
  if (dropped) g.set_operands(n, kept);
  return dropped;
}

}  // namespace

PassResult dead_code_elimination(Module& m, PassContext&) {
  int64_t nodes = 0, dropped = 0;
  std::vector<GraphId> graphs = graphs_in_use(m);
  std::ranges::reverse(graphs);
  for (GraphId id : graphs) {  // bodies first: what they do not read dies outside
    Graph& g = m.graph(id);
    std::vector<NodeId> order;
    order.reserve(g.live_nodes());
    for (NodeId n : g.nodes()) order.push_back(n);
    std::ranges::reverse(order);
    for (NodeId n : order) {
      if (g.op(n) == OpKind::Input) continue;
      if (!has_uses(g, n)) {
        g.erase(n);
        ++nodes;
      } else if (has_trait(g.op(n), kBody)) {
        dropped += drop_unread_captures(g, n);
      }
    }
  }
  return {nodes + dropped > 0, {{"nodes_removed", nodes}, {"captures_removed", dropped}}};
}

}  // namespace rlxc
