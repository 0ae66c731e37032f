// When a node runs: what depends only on weights and constants runs once at load time (prologue), what follows the last heavy
// operation on every path runs last (epilogue), the rest at every call (steady state). O(nodes + operands).
#pragma once
#include <algorithm>

#include "ir/lir.h"

namespace rlxc {

// Returns whether the node is computed at load time, where `known(v)` says which operands are. Weights are; inputs, impure ops
// and sequences are not.
template <class Known>
bool is_load_time(const Graph& g, NodeId n, const Known& known) {
  const OpKind op = g.op(n);
  if (has_trait(op, kLeaf)) return is_weight(op);
  return op != OpKind::DimValue && !has_trait(op, kImpure | kSequenceOp) &&
         std::ranges::all_of(g.operands(n), [&](ValueId v) { return !v.valid() || known(v); });
}

std::vector<Phase> derive_phases(const Graph&);  // by node id

// Is the value there before the first run: a parameter, a constant, or made of such only? `phase` as derived.
bool is_known_on_load(const Graph&, const std::vector<Phase>& phase, ValueId);

// What is launched moves or computes bytes at every call: not a leaf, not a view, not in the prologue, not a host shape value.
// One launch may run several of them, which then follow each other: does `n` continue the launch of the one before it, if any?
bool is_launch(const Graph&, const GraphLayouts&, NodeId, Phase);
bool continues_launch(const Graph&, NodeId before, NodeId n);

}  // namespace rlxc
