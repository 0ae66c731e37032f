// Moves an operand of elementwise steps above the layout ops that they follow: a scale for each row of an image is one for each
// row of the windows that the image is made of.
#pragma once
#include "ir/builder.h"

namespace rlxc::fuse {

// Whether the operand can be moved above the moves (Reshape, Transpose and Narrow, first one first). Slices along axes along
// which it is one number do not change it. Else it is a weight, dims are static, and all moves are slices or keep the last axis,
// along which it is one number. O(moves * rank).
bool has_operand_before(const Graph&, ValueId operand, std::span<const NodeId> moves);
// The operand there, for values of that shape; 1 at elements that slices drop.
ValueId operand_before(Builder&, ValueId operand, std::span<const NodeId> moves);

// The operand of steps that compute several disjoint slices (Narrow) of a value along its last axis at once, given that of each
// slice, a number or one for each column; 1 at other columns.
ValueId operand_of_slices(Builder&, std::span<const NodeId> slices, std::span<const ValueId> operands);

}  // namespace rlxc::fuse
