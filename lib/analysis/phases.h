// Assigns a phase to every node: load time (depends on weights and constants alone, Phase::Prologue), epilogue (after the last
// heavy op on every path), steady state (the rest). O(nodes + operands).
#pragma once
#include <algorithm>

#include "ir/lir.h"

namespace rlxc {

// Returns whether the node is computed at load time if `known(v)` answers for its operands. Weights are; inputs, impure ops,
// control flow and sequences are not.
template <class Known>
bool is_load_time(const Graph& g, NodeId n, const Known& known) {
  const OpKind op = g.op(n);
  if (has_trait(op, kLeaf)) return is_weight(op);
  return op != OpKind::DimValue && !has_trait(op, kImpure | kSequenceOp | kBody) &&
         std::ranges::all_of(g.operands(n), [&](ValueId v) { return !v.valid() || known(v); });
}

// Returns the phase of every node, indexed by node id. Graphs but the main one are bodies, of which nothing is computed at load
// time.
std::vector<Phase> derive_phases(const Graph&);
// The same of the main graph, or a copy of it.
std::vector<Phase> program_phases(const Graph&);

// Returns whether the value exists before the first run: a parameter, a constant, or computed from these alone.
bool is_known_on_load(const Graph&, const std::vector<Phase>& phase, ValueId);

// Returns whether the node moves or computes bytes in every run: it is no leaf, view, load-time node or DimValue.
bool is_launch(const Graph&, const GraphLayouts&, NodeId, Phase);
// Returns whether `n` runs in the launch of `before`, the previous launched node.
bool continues_launch(const Graph&, NodeId before, NodeId n);

}  // namespace rlxc
