#include "analysis/phases.h"

namespace rlxc {

namespace {

// A body runs as part of its node.
std::vector<Phase> phases_of(const Graph& g, bool body) {
  std::vector<Phase> phase(g.node_capacity(), Phase::SteadyState);
  for (NodeId n : g.nodes()) {
    bool prologue =
        has_trait(g.op(n), kLeaf) || (!body && is_load_time(g, n, [&](ValueId v) { return is_known_on_load(g, phase, v); }));
    for (size_t r = 0; r < g.result_count(n); ++r) prologue &= g.type(g.result(n, r)).is_static();
    if (prologue) phase[n.raw] = Phase::Prologue;
  }
  // A node is in the epilogue if it depends on a heavy op and no heavy op depends on it.
  std::vector<bool> heavy_before(g.node_capacity()), heavy_after(g.node_capacity());
  std::vector<NodeId> order;
  for (NodeId n : g.nodes()) {
    order.push_back(n);
    bool before = false;
    for (ValueId v : g.operands(n))
      if (v.valid()) before |= heavy_before[g.def(v).raw] || has_trait(g.op(g.def(v)), kBlas | kBody);
    heavy_before[n.raw] = before && phase[n.raw] != Phase::Prologue;
  }
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    bool after = has_trait(g.op(*it), kBlas | kBody);
    for (size_t r = 0; r < g.result_count(*it); ++r)
      for (Graph::Use use : g.uses(g.result(*it, r)))
        if (use.user != g.terminator()) after |= heavy_after[use.user.raw];
    heavy_after[it->raw] = after;
    if (phase[it->raw] == Phase::SteadyState && heavy_before[it->raw] && !after) phase[it->raw] = Phase::Epilogue;
  }
  return phase;
}

}  // namespace

std::vector<Phase> derive_phases(const Graph& g) { return phases_of(g, g.id().raw != 0); }
std::vector<Phase> program_phases(const Graph& g) { return phases_of(g, false); }

bool is_known_on_load(const Graph& g, const std::vector<Phase>& phase, ValueId v) {
  return phase[g.def(v).raw] == Phase::Prologue && g.op(g.def(v)) != OpKind::Input;
}

bool is_launch(const Graph& g, const GraphLayouts& layouts, NodeId n, Phase phase) {
  return !has_trait(g.op(n), kLeaf | kTerminator) && g.op(n) != OpKind::DimValue && phase != Phase::Prologue &&
         !layouts.is_view(g, n);
}

bool continues_launch(const Graph& g, NodeId before, NodeId n) {
  return before.valid() && g.launch(n).valid() && g.launch(before) == g.launch(n);
}

}  // namespace rlxc
