// Assigns a phase to every node: load time (depends on weights and constants alone, Phase::Prologue), epilogue (after the last
// heavy op on every path), steady state (the rest). O(nodes + operands).
#pragma once
#include "ir/lir.h"

namespace rlxc {

std::vector<Phase> derive_phases(const Graph&);  // indexed by node id

// Returns whether the value exists before the first run: a parameter, a constant, or computed from these alone.
bool is_known_on_load(const Graph&, const std::vector<Phase>& phase, ValueId);

// is_launch: the node moves or computes bytes in every run, so it is no leaf, view, load-time node or DimValue. continues_launch:
// `n` runs in the same launch as `before`, the previous launched node.
bool is_launch(const Graph&, const GraphLayouts&, NodeId, Phase);
bool continues_launch(const Graph&, NodeId before, NodeId n);

}  // namespace rlxc
