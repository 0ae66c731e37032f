#include "ir/text_order.h"

#include <algorithm>
#include <iterator>

namespace rlxc {

std::vector<NodeId> text_order(const Graph& g) {
  std::vector<NodeId> all, inputs;
  for (NodeId n : g.nodes()) {
    all.push_back(n);
    if (g.op(n) == OpKind::Input) inputs.push_back(n);
  }
  if (std::ranges::equal(inputs, g.inputs())) return all;
  inputs.assign(g.inputs().begin(), g.inputs().end());
  std::ranges::copy_if(all, std::back_inserter(inputs), [&](NodeId n) { return g.op(n) != OpKind::Input; });
  return inputs;
}

}  // namespace rlxc
