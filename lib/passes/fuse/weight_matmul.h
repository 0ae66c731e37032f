// Common interface of matmuls with float weights (MatMul) and with quantized weights (DequantMatMul), for fusions that support
// both.
#pragma once
#include <span>

#include "passes/match.h"

namespace rlxc::fuse {

// x*w with a 2-D weight, without transposed x, bias, residual, activation or gate.
bool is_weight_matmul(const Graph&, NodeId);
bool trans_b(const Graph&, NodeId);

// The reason why two weights cannot be concatenated, or null.
const char* packing_conflict(const Graph&, NodeId, NodeId);

// The matmul of x with the concatenated weights of all nodes. They must be weight matmuls of x without packing conflicts.
ValueId concatenated_matmul(Builder&, ValueId x, std::span<const NodeId>);

// act(x*w + bias + residual); bias, residual and act are optional.
ValueId with_end(Builder&, NodeId matmul, ValueId bias, ValueId residual, const Epilogue& act);
OpKind kind_with_end(OpKind matmul);

// Returns whether the matmul has neither residual nor activation. It may have a bias.
bool takes_residual(const Graph&, NodeId);
ValueId with_residual(Builder&, NodeId matmul, ValueId residual, const Epilogue& act);

// FusedSwiGLU of x*w + bias; the bias is optional.
ValueId with_gate(Builder&, NodeId matmul, ValueId bias, const SwiGLUAttrs&);
OpKind kind_with_gate(OpKind matmul);

}  // namespace rlxc::fuse
