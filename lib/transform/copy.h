// Copies of bodies: rules make the body of a loop again, in its own graph or as part of another one.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "ir/builder.h"
#include "ir/dim_range.h"

namespace rlxc::transform {

// Which carried value of a Loop changes its size from iteration to iteration; empty if none does.
std::string changing_size(const Graph&, NodeId loop);
// Symbols for the sizes that a loop changes from iteration to iteration: a copy of its body has sizes of its own. Of the
// `carried` operands from `first` on, those of which the body says another size than the operand has.
SymbolValues fresh_carried_sizes(const Graph&, NodeId loop, size_t first, size_t carried);
// The nodes of `body` again where the builder places them, reading `inputs` for its inputs and `sizes` for symbols; bodies inside
// are copied as well. Symbols that its inputs or nodes define become the sizes of the inputs given, and of the copies. What its
// outputs are; empty after errors.
std::vector<ValueId> inlined(Builder&, GraphId body, std::span<const ValueId> inputs, const SymbolValues& sizes = {});
// The graph again, as a graph of its own.
GraphId cloned(Module&, GraphId, const SymbolValues& sizes = {});
// The node again, on other operands. Invalid after errors.
NodeId repeated(Builder&, const Graph& from, NodeId, std::span<const ValueId> operands, const SymbolValues& sizes = {});

}  // namespace rlxc::transform
