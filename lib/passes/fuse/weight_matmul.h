// A matmul of rows with a weight, however the weight is kept: as numbers (MatMul) or as quantized values with scales and zero
// points (DequantMatMul). What a fusion asks of such a matmul and what it makes of it, so that no fusion knows the two kinds.
#pragma once
#include <span>

#include "passes/match.h"

namespace rlxc::fuse {

// x*w with w of two axes and nothing before or behind the matmul: no transposed x, bias, residual, activation or gate.
bool is_weight_matmul(const Graph&, NodeId);
bool trans_b(const Graph&, NodeId);

// Why the weights of two matmuls cannot lie side by side, or null.
const char* packing_conflict(const Graph&, NodeId, NodeId);

// The matmul of x with the weights of all nodes side by side. They are weight matmuls of x, pairwise not apart.
ValueId side_by_side(Builder&, ValueId x, std::span<const NodeId>);

// act(x*w + bias + residual), all but the matmul optional.
ValueId with_end(Builder&, NodeId matmul, ValueId bias, ValueId residual, const Epilogue& act);
OpKind kind_with_end(OpKind matmul);

// A matmul with neither residual nor activation; a bias it may have.
bool takes_residual(const Graph&, NodeId);
ValueId with_residual(Builder&, NodeId matmul, ValueId residual, const Epilogue& act);

// FusedSwiGLU of x*w + bias; the bias may be absent.
ValueId with_gate(Builder&, NodeId matmul, ValueId bias, const SwiGLUAttrs&);
OpKind kind_with_gate(OpKind matmul);

}  // namespace rlxc::fuse
