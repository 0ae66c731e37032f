// The lowering function of each op kind (table in lower.cpp). Each returns false and sets Node::reason on failure.
#pragma once
#include <functional>

#include "codegen/scope.h"

namespace rlxc::codegen {

// Applies the activation of a fused op to a value of its compute type.
Expr activation(const Epilogue&, Expr);
// Returns up * act(gate); silu if the epilogue has no activation.
Expr gated(Expr up, Expr gate, const Epilogue&);
// Applies an elementwise op (one with a meaning, Where or Cast) with its parameters. `to`: type of the result.
Expr elementwise(OpKind, double alpha, double beta, DType to, std::span<const Expr>);
// Returns the value of a region step, given the values of earlier steps and of operands. `rounded`: a product of
// rounded_products.
Expr step_value(const RegionStep&, bool rounded, std::span<const Expr> values, const std::function<Expr(size_t)>& operand);
// Returns the parameters of an elementwise node: alpha and beta, or the bounds of a clamp.
std::pair<double, double> elementwise_parameters(const Attrs&);

// Decodes an i32 bit pattern of a type that the kernel language lacks (is_narrow), in the compute type.
Expr narrow_value(DType, Expr code);

bool lower_reshape(Node&);
bool lower_transpose(Node&);
bool lower_narrow(Node&);
bool lower_slice(Node&);
bool lower_expand(Node&);
bool lower_reverse(Node&);
bool lower_tile(Node&);
bool lower_concat(Node&);
bool lower_swiglu(Node&);
bool lower_rope(Node&);
bool lower_rope_append(Node&);

bool lower_elementwise(Node&);
bool lower_cast(Node&);
bool lower_narrow_cast(Node&);
bool lower_bit_cast(Node&);
bool lower_region(Node&);
bool lower_concat_region(Node&);
bool lower_reduced_parts(Node&);  // a ConcatRegion that reduces rows
bool lower_batch_norm(Node&);
bool lower_quantize(Node&);
bool lower_dequantize(Node&);
bool lower_dynamic_quantize(Node&);

bool lower_gather(Node&);
bool lower_gather_elements(Node&);
bool lower_gather_nd(Node&);
bool lower_scatter_elements(Node&);
bool lower_scatter_nd(Node&);
bool lower_pad(Node&);
bool lower_trilu(Node&);
bool lower_range(Node&);
bool lower_one_hot(Node&);
bool lower_dim_value(Node&);

bool lower_random(Node&);
bool lower_iota(Node&);
bool lower_reshape_to(Node&);
bool lower_non_zero(Node&);
bool lower_unique(Node&);
bool lower_non_max_suppression(Node&);

bool lower_resize(Node&);

bool lower_reduce(Node&);
bool lower_reduce_region(Node&);
bool lower_arg_reduce(Node&);
bool lower_cumulative(Node&);
bool lower_topk(Node&);
bool lower_det(Node&);
bool lower_fft(Node&);

bool lower_softmax(Node&);
bool lower_norm(Node&);
bool lower_lrn(Node&);

bool lower_matmul(Node&);
bool lower_dot_general(Node&);
bool lower_grouped_matmul(Node&);

bool lower_conv(Node&);
bool lower_pool(Node&);

// Writes x, whose strides are over the shape of the result, to the result.
bool copy(Node&, Scope&, Operand x, const Dims& shape);
// A scratch buffer for a row-major copy of a value that is not row-major; nullopt if it is.
std::optional<uint32_t> row_major_scratch(Node&, ValueId);
// Copies operand 0 to the scratch image, or the scratch image to the result.
void copy_image(Node&, uint32_t image, std::optional<size_t> result = {});
// Quantizes the first operand (rounds_operand of ir/region.h) to a row-major scratch buffer.
uint32_t rounded_operand(Node&);

// The prepacked buffers of an op, ordered by their first operand (LoweringInfo::prepacked).
std::vector<PrepackedBuffer> prepack_matmul(Node&, const std::vector<bool>& on_load);
std::vector<PrepackedBuffer> prepack_conv(Node&, const std::vector<bool>& on_load);
std::vector<PrepackedBuffer> prepack_fft(Node&, const std::vector<bool>& on_load);

// Table conditions: whether a result may overwrite this operand (overwrite.cpp).
bool keeps_type(const Graph&, NodeId, size_t operand);
bool stores_exact_sum(const Graph&, NodeId, size_t operand);
bool sums_channels(const Graph&, NodeId, size_t operand);
bool serves_no_later_step(const Graph&, NodeId, size_t operand);
bool gives_rows(const Graph&, NodeId, size_t operand);

bool lower_custom_op(Node&);  // by the kernel that the operation has for the target

bool lower_attention(Node&);
bool lower_q_attention(Node&);
bool lower_recurrent(Node&);
bool lower_selective_scan(Node&);

}  // namespace rlxc::codegen
