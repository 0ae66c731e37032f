#include "passes/provenance.h"

#include <algorithm>

namespace rlxc {

Origin merged_origin(const Graph& g, std::span<const NodeId> members) {
  const Module& m = g.module();
  Origin merged;
  for (NodeId n : members) {
    if (g.origin(n).valid()) {
      const Origin& o = m.origin(g.origin(n));
      merged.sources.insert(merged.sources.end(), o.sources.begin(), o.sources.end());
      for (Symbol s : o.passes)
        if (std::ranges::find(merged.passes, s) == merged.passes.end()) merged.passes.push_back(s);
    }
    if (g.node_name(n).valid()) merged.sources.push_back(g.node_name(n));
  }
  // Removes repeated sources, keeping the first.
  std::vector<Symbol> seen = merged.sources;
  std::ranges::sort(seen);
  seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
  if (seen.size() < merged.sources.size()) {
    std::vector<bool> taken(seen.size());
    std::erase_if(merged.sources, [&](Symbol s) {
      const auto i = static_cast<size_t>(std::ranges::lower_bound(seen, s) - seen.begin());
      const bool again = taken[i];
      taken[i] = true;
      return again;
    });
  }
  return merged;
}

void merge_origins(Graph& g, NodeId into, std::span<const NodeId> members) {
  Module& m = g.module();
  Origin merged = merged_origin(g, members);
  if (m.current_pass.valid()) {
    std::erase(merged.passes, m.current_pass);
    merged.passes.push_back(m.current_pass);
  }
  g.set_origin(into, m.add_origin(std::move(merged)));
}

void merge_origins_since(Graph& g, size_t first, std::span<const NodeId> members) {
  for (size_t i = first; i < g.node_capacity(); ++i) merge_origins(g, NodeId(i), members);
}

}  // namespace rlxc
