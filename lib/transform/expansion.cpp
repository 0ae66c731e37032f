#include "transform/expansion.h"

#include "transform/copy.h"

namespace rlxc::transform {

std::vector<ValueId> expanded(Builder& b, const Graph& from, NodeId n, std::span<const ValueId> operands, Expand expand) {
  if (!expand) return {};
  const NodeId whole = repeated(b, from, n, operands);
  if (!whole.valid()) return {};
  Graph& g = b.graph();
  std::vector<ValueId> results = expand(g, whole);
  g.erase(whole);
  if (results.size() != from.result_count(n)) return {};
  for (size_t r = 0; r < results.size(); ++r)
    if (!results[r].valid() || g.rank(results[r]) != from.rank(from.result(n, r)) ||
        g.dtype(results[r]) != from.dtype(from.result(n, r)))
      return {};
  return results;
}

}  // namespace rlxc::transform
