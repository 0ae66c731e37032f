// The lowering function of each op kind (table in lower.cpp). They return false with a reason in Node::why.
#pragma once
#include <functional>

#include "codegen/scope.h"

namespace rlxc::codegen {

// The activation of a fused op on a value of its compute type.
Expr activation(const Epilogue&, Expr);
// up * act(gate); silu if no act is given.
Expr gated(Expr up, Expr gate, const Epilogue&);
// An elementwise op (one with a meaning, Where or Cast) with its parameters; `to` is the type of the result.
Expr elementwise(OpKind, double alpha, double beta, DType to, std::span<const Expr>);
// One step of a region, from the values of the steps before it and of operands.
Expr step_value(const RegionStep&, std::span<const Expr> values, const std::function<Expr(size_t)>& operand);
// The parameters of an elementwise node: alpha and beta, or the bounds of a clamp.
std::pair<double, double> elementwise_parameters(const Attrs&);

// The value of an i32 code of a type that kernels do not hold (is_narrow), in the type to compute with.
Expr narrow_value(DType, Expr code);

bool lower_reshape(const Node&);
bool lower_transpose(const Node&);
bool lower_narrow(const Node&);
bool lower_slice(const Node&);
bool lower_expand(const Node&);
bool lower_reverse(const Node&);
bool lower_tile(const Node&);
bool lower_concat(const Node&);
bool lower_swiglu(const Node&);
bool lower_rope(const Node&);

bool lower_elementwise(const Node&);
bool lower_cast(const Node&);
bool lower_narrow_cast(const Node&);
bool lower_bit_cast(const Node&);
bool lower_region(const Node&);
bool lower_batch_norm(const Node&);
bool lower_quantize(const Node&);
bool lower_dequantize(const Node&);

bool lower_gather(const Node&);
bool lower_gather_elements(const Node&);
bool lower_gather_nd(const Node&);
bool lower_scatter_elements(const Node&);
bool lower_scatter_nd(const Node&);
bool lower_pad(const Node&);
bool lower_trilu(const Node&);
bool lower_range(const Node&);
bool lower_one_hot(const Node&);
bool lower_dim_value(const Node&);

bool lower_random(const Node&);
bool lower_iota(const Node&);
bool lower_reshape_to(const Node&);
bool lower_non_zero(const Node&);
bool lower_unique(const Node&);
bool lower_non_max_suppression(const Node&);

bool lower_resize(const Node&);

bool lower_reduce(const Node&);
bool lower_reduce_region(const Node&);
bool lower_arg_reduce(const Node&);
bool lower_cumulative(const Node&);
bool lower_topk(const Node&);
bool lower_det(const Node&);
bool lower_fft(const Node&);

bool lower_softmax(const Node&);
bool lower_norm(const Node&);
bool lower_lrn(const Node&);

bool lower_matmul(const Node&);
bool lower_fused_matmul(const Node&);
bool lower_matmul_swiglu(const Node&);
bool lower_dot_general(const Node&);
bool lower_q_matmul(const Node&);
bool lower_dequant_matmul(const Node&);
bool lower_grouped_matmul(const Node&);

bool lower_conv(const Node&);
bool lower_fused_conv(const Node&);
bool lower_conv_transpose(const Node&);
bool lower_q_conv(const Node&);
bool lower_pool(const Node&);

bool lower_attention(const Node&);
bool lower_recurrent(const Node&);
bool lower_selective_scan(const Node&);

}  // namespace rlxc::codegen
