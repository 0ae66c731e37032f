// Queries on graphs with Q/DQ pairs for the passes that move Quantize nodes.
#pragma once
#include "ir/builder.h"

namespace rlxc {

// Whether the node is a Quantize or Dequantize with one scale and one zero point.
bool rounds_by_one(const Graph&, NodeId);
// The Reshapes and Transposes above *v that are read once, at most `most`, last first. *v becomes the value above them.
std::vector<NodeId> moves_above(const Graph&, ValueId* v, size_t most);
ValueId moved_alike(Builder&, std::span<const NodeId> moves, ValueId v);  // v after copies of `moves`, as moves_above gives them
// v, of any shape, quantized or dequantized as the node does, which has one scale and one zero point.
ValueId rounded_alike(Builder&, NodeId, ValueId v);
// Moves a Dequantize with one scale above the Reshapes between it and its Quantize, if nobody else reads the codes: the pair is
// then one elementwise node. Returns whether there are any.
bool join_pair(Graph&, NodeId dequantize);
// Whether the node is a Resize that repeats or drops elements and computes none.
bool selects_positions(const Graph&, NodeId);
// Whether the node is a max pooling each of whose windows has an element that is no padding. A window of padding alone is an
// infinity, which has no code.
bool pools_codes(const Graph&, NodeId);
// The matmul or convolution that computed the value, before elementwise nodes of the same shape and Q/DQ pairs: a QMatMul, QConv
// or MatMul. Invalid if there is none nearby. `pairs`: whether Q/DQ pairs may be between.
NodeId contraction_of(const Graph&, ValueId, bool pairs = true);

}  // namespace rlxc
