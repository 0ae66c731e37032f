// Decomposes ops without a kernel on the target, repeatedly, until all ops have kernels. Ops with a kernel are decomposed only if
// the options ask for it (TargetTraits::decomposed).
// Ops with neither a kernel nor a decomposition are an error (Code::UnsupportedOnTarget) that names their nodes, grouped by kind.
// O(created nodes).
#include <algorithm>
#include <array>

#include "ir/graphs.h"
#include "passes/legalise/decompositions.h"
#include "passes/passes.h"

namespace rlxc {
namespace {

constexpr size_t kShown = 8;  // nodes of a kind named in a message

// "name" f32[2,3], bool[2,3]: the node and its operand types.
std::string describe(const Graph& g, NodeId n) {
  std::string s = g.label(n).quoted();
  for (ValueId v : g.operands(n))
    if (v.valid()) s += (v == g.operand(n, 0) ? " (" : ", ") + text(g.type(v), g.module().dims);
  return g.operands(n).empty() ? s : s + ")";
}

// Whether the node quantizes its result, as TargetTraits::integer_fusions allows.
bool stores_codes(const Graph& g, NodeId n) {
  switch (g.op(n)) {
    case OpKind::Attention: return g.operand(n, kAttentionScale).valid();
    case OpKind::Rope: return g.operand(n, kRopeFactor + 1).valid();
    case OpKind::Softmax:
    case OpKind::Resize: return g.operand(n, kResultScale).valid();
    default: return false;
  }
}

}  // namespace

PassResult decompose(Module& m, PassContext& context) {
  const TargetTraits& target = context.target;
  std::array<int64_t, kOpCount> expanded{};
  std::array<std::vector<std::string>, kOpCount> unsupported;
  std::vector<NodeId> work;
  std::vector<GraphId> graphs = graphs_in_use(m);
  for (size_t i = 0; i < graphs.size(); ++i) {
    Graph& g = m.graph(graphs[i]);
    auto foreign = [&](NodeId n) {
      return !has_trait(g.op(n), kLeaf | kTerminator) &&
             (!target.native[static_cast<size_t>(g.op(n))] || (stores_codes(g, n) && !target.integer_fusions));
    };
    auto expands = [&](NodeId n) { return foreign(n) || target.decomposed[static_cast<size_t>(g.op(n))]; };
    for (NodeId n : g.nodes())
      if (expands(n)) work.push_back(n);
    // Terminates, because a decomposition never contains its own kind.
    for (size_t head = 0; head < work.size(); ++head) {
      const NodeId n = work[head];
      const auto kind = static_cast<size_t>(g.op(n));
      const legalise::Decomposition expand = legalise::decomposition(g.op(n));
      const size_t before = g.node_capacity();
      if (!expand || !legalise::expand_node(g, n, expand)) {
        if (foreign(n)) unsupported[kind].push_back(describe(g, n));
        continue;
      }
      ++expanded[kind];
      for (size_t k = before; k < g.node_capacity(); ++k) {
        const NodeId made(k);
        if (!g.alive(made)) continue;
        if (expands(made)) work.push_back(made);
        graphs.insert(graphs.end(), g.bodies(made).begin(), g.bodies(made).end());
      }
    }
    work.clear();
  }

  PassResult result;
  for (int k = 0; k < kOpCount; ++k) {
    const auto kind = static_cast<size_t>(k);
    if (expanded[kind]) result.counts.emplace_back(name(static_cast<OpKind>(k)), expanded[kind]);
    if (unsupported[kind].empty()) continue;
    std::string nodes;
    for (size_t i = 0; i < std::min(kShown, unsupported[kind].size()); ++i)
      nodes += (nodes.empty() ? "" : ", ") + unsupported[kind][i];
    if (unsupported[kind].size() > kShown) nodes += ", and " + std::to_string(unsupported[kind].size() - kShown) + " more";
    context.diagnostics.error(Code::UnsupportedOnTarget,
                              std::string(name(static_cast<OpKind>(k))) + " has no kernel on " + target.name +
                                  " and no expansion for these nodes: " + nodes,
                              std::to_string(unsupported[kind].size()) + (unsupported[kind].size() == 1 ? " node" : " nodes"),
                              "add the operation to what the target supports, or write the model without it");
  }
  result.changed = !result.counts.empty();
  return result;
}

}  // namespace rlxc
