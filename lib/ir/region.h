// Fused nodes are programs of elementwise steps (FusionAttrs). Some contain other steps, called cores: norms, reductions, or an
// integer matmul or convolution as the first step.
#pragma once
#include "ir/graph.h"

namespace rlxc {

bool is_core(const RegionStep&);
// Whether an argument of a step is another step.
inline bool is_step(uint16_t arg) { return arg != RegionStep::kNone && (arg & RegionStep::kStep) != 0; }
inline constexpr size_t kQuantOperands = 4;            // of q_matmul and q_conv; operands of the steps follow
bool has_two_sums(std::span<const RegionStep>);        // of fused_q_matmul: steps 0 and 1 are products with halves of b
inline constexpr size_t kAttentionOperands = 7;        // of q_attention; operands of the steps follow
size_t last_matmul_step(std::span<const RegionStep>);  // of q_attention
std::vector<RegionStep> steps_from(std::span<const RegionStep>, size_t first);  // renumbered; they read none before
// Elementwise steps around one LayerNorm, RmsNorm, Softmax, LogSoftmax or GroupNorm step, or around several LayerNorm and RmsNorm
// steps over the same axes, axis..last.
int64_t norm_axis(const RegionStep&);  // of a norm other than GroupNorm; 0 of a softmax without attributes
// Whether the first further result is the operand of the last norm. The others are no steps before this norm.
bool keeps_operand(const FusionAttrs&);
// Elementwise steps and Reduce steps over the same axes, which keep dim 1. Reduced values have the broadcast shape of all
// operands. The result has this shape, or dim 1 along the axes if it does not vary along them.
const std::vector<int64_t>& reduced_axes(std::span<const RegionStep>);  // at least one step reduces
// The convolution of a FusedQConv, step 0.
inline const ConvAttrs& conv_step(const FusionAttrs& a) { return a.steps[0].as<ConvAttrs>(); }
ConvAttrs* conv_attrs(Attrs&);  // of a convolution, fused or not; null in other attributes
// The first operand of a FusedQMatMul or FusedQConv may be f32: it is quantized by the scale of operand kQuantOperands to the
// type of its zero point.
bool rounds_operand(const Graph&, NodeId);
DType code_type(const Graph&, NodeId);  // of the integers of the first operand of these, a QMatMul or a QConv

// The multiplications whose products are added to others before these are rounded to integers. Fused with the addition, they
// would give other integers.
std::vector<bool> rounded_products(std::span<const RegionStep>);

// The steps to compute for step `wanted`, given the values of earlier cores.
std::vector<bool> needed_steps(std::span<const RegionStep>, size_t wanted);

// Returns whether a value with these dims, broadcast to `rank` axes, varies along any of `axes`.
bool varies(std::span<const Dim> dims, size_t rank, std::span<const int64_t> axes);
// The steps that vary along the axes, given the operands that do. Cores do not vary.
std::vector<bool> varying_steps(std::span<const RegionStep>, const std::vector<bool>& operands);

// The walks over a row that a reduce region needs. Each walk completes all reductions whose operands are known from earlier
// walks, and computes `steps` at each element; the last walk computes the result.
struct RowWalk {
  std::vector<size_t> reductions;
  std::vector<bool> steps;
};
std::vector<RowWalk> row_walks(std::span<const RegionStep>, const std::vector<bool>& varying);

// The operands that a step reads, through other steps too, up to cores.
std::vector<bool> operands_of(std::span<const RegionStep>, size_t wanted, size_t count);

// The broadcast shape of all operands of a region. The node must have inferred types.
std::vector<Dim> whole_dims(const Graph&, NodeId);
// The shape of a part of a ConcatRegion that this step computes.
std::vector<Dim> part_dims(const Graph&, NodeId, size_t step);
// Whether a ConcatRegion reads the operand in parts that copy it, and nowhere else.
bool copies_operand(const Graph&, NodeId, size_t operand);
// Whether steps of a ConcatRegion reduce rows, the operands that the arguments of the reductions read, and their shape.
bool reduces_rows(std::span<const RegionStep>);
std::vector<bool> operands_of_rows(std::span<const RegionStep>, size_t count);
std::vector<Dim> row_dims(const Graph&, NodeId);
// For a ReduceRegion node.
std::vector<bool> varying_steps(const Graph&, NodeId);

}  // namespace rlxc
