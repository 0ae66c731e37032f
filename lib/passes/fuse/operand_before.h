// Moves an operand of elementwise steps above the layout ops that they follow: a scale for each row of an image is one for each
// row of the windows that the image is made of.
#pragma once
#include "ir/builder.h"

namespace rlxc::fuse {

// Whether the operand can be moved above `moves` (Reshape, Transpose and Narrow, in execution order). It can if all moves are
// slices of axes along which it has size 1. Other operands must be weights, and dims static. Their moves must all be slices, or
// all keep the last axis, whose size in the operand is 1. O(moves * rank).
bool has_operand_before(const Graph&, ValueId operand, std::span<const NodeId> moves);
// The operand there, for values of that shape; 1 at elements that slices drop.
ValueId operand_before(Builder&, ValueId operand, std::span<const NodeId> moves);

// The operand of steps that compute several disjoint slices (Narrow) of a value along its last axis at once, given that of each
// slice, a number or one for each column; 1 at other columns.
ValueId operand_of_slices(Builder&, std::span<const NodeId> slices, std::span<const ValueId> operands);

}  // namespace rlxc::fuse
