#include "ir/graphs.h"

namespace rlxc {

std::vector<GraphId> graphs_in_use(const Module& m) {
  std::vector<GraphId> order{GraphId(0)};
  if (m.graph_count() == 1) return order;
  for (size_t i = 0; i < order.size(); ++i) {
    const Graph& g = m.graph(order[i]);
    for (NodeId n : g.nodes())
      for (GraphId b : g.bodies(n)) order.push_back(b);
  }
  return order;
}

bool runs_bodies(const Graph& g, NodeId n) {
  return has_trait(g.op(n), kBody) && !(g.op(n) == OpKind::CustomOp && !g.attrs<CustomAttrs>(n).targets.empty());
}

size_t live_nodes(const Module& m) {
  size_t n = 0;
  for (GraphId id : graphs_in_use(m)) n += m.graph(id).live_nodes();
  return n;
}

void compact_sparse(Module& m) {
  for (GraphId id : graphs_in_use(m))
    if (Graph& g = m.graph(id); g.live_nodes() * 3 < g.node_capacity() * 2) g.compact();
}

Captures captures(const Graph& g, NodeId n) {
  switch (g.op(n)) {
    case OpKind::Loop: return {2 + static_cast<size_t>(g.attrs<LoopAttrs>(n).carries), 0};
    case OpKind::Scan: {
      const auto& a = g.attrs<ScanAttrs>(n);
      return {static_cast<size_t>(a.states + a.scan_inputs), 0};
    }
    case OpKind::CustomOp: return {g.operands(n).size(), 0};
    default: return {1, 1};
  }
}

}  // namespace rlxc
