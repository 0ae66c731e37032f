// Counts the launches of a module over all graphs.
#pragma once
#include "analysis/phases.h"
#include "analysis/views.h"

namespace rlxc {

inline int64_t count_launches(const Module& m) {
  int64_t count = 0;
  for (size_t i = 0; i < m.graph_count(); ++i) {
    const Graph& g = m.graph(GraphId(i));
    const auto phases = derive_phases(g);
    const GraphLayouts layouts = assign_layouts(g);
    NodeId before;
    for (NodeId n : g.nodes()) {
      if (!is_launch(g, layouts, n, phases[n.raw])) continue;
      count += !continues_launch(g, before, n);
      before = n;
    }
  }
  return count;
}

}  // namespace rlxc
