// Copies of bodies: rules make the body of a loop again, in its own graph or as part of another one.
#pragma once
#include <span>
#include <vector>

#include "ir/builder.h"
#include "ir/dim_range.h"

namespace rlxc::transform {

// The nodes of `body` again where the builder places them, reading `inputs` for its inputs and `sizes` for symbols; bodies inside
// are copied as well. What its outputs are; empty after errors.
std::vector<ValueId> inlined(Builder&, GraphId body, std::span<const ValueId> inputs, const SymbolValues& sizes = {});
// The graph again, as a graph of its own.
GraphId cloned(Module&, GraphId, const SymbolValues& sizes = {});
// The node again, on other operands. Invalid after errors.
NodeId repeated(Builder&, const Graph& from, NodeId, std::span<const ValueId> operands, const SymbolValues& sizes = {});

}  // namespace rlxc::transform
