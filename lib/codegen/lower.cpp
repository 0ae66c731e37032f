#include "codegen/lower.h"

#include <algorithm>
#include <array>

#include "codegen/lowerings.h"
#include "ops/elementwise.h"

namespace rlxc::codegen {
namespace {

using LowerFn = bool (*)(Node&);
using PrepackFn = std::vector<PrepackedBuffer> (*)(Node&, const std::vector<bool>& on_load);

// The operands that a result may overwrite (bit set), and a condition.
struct InPlace {
  uint32_t operands = 0;
  bool (*holds)(const Graph&, NodeId, size_t operand) = nullptr;  // null: always
};

struct LoweringRow {
  OpKind op = OpKind::Input;
  LowerFn lower = nullptr;
  std::array<InPlace, 3> in_place = {};  // by result; elementwise ops use a trait instead
  PrepackFn prepack = nullptr;
};
constexpr LoweringRow kTable[] = {
    {OpKind::Reshape, lower_reshape},
    {OpKind::Transpose, lower_transpose},
    {OpKind::Narrow, lower_narrow},
    {OpKind::Slice, lower_slice},
    {OpKind::Expand, lower_expand},
    {OpKind::Reverse, lower_reverse},
    {OpKind::Tile, lower_tile},
    {OpKind::Concat, lower_concat},
    {OpKind::FusedSwiGLU, lower_swiglu},
    {OpKind::Rope, lower_rope, {{{0b1, keeps_type}}}},
    {OpKind::FusedRopeAppend, lower_rope_append, {{{}, {0b100000}, {0b1000000}}}},
    {OpKind::ElementwiseRegion, lower_region},
    {OpKind::ConcatRegion, lower_concat_region},
    {OpKind::Where, lower_elementwise},
    {OpKind::Cast, lower_cast},
    {OpKind::BitCast, lower_bit_cast},
    {OpKind::BatchNormInference, lower_batch_norm},
    {OpKind::Quantize, lower_quantize},
    {OpKind::Dequantize, lower_dequantize},
    {OpKind::Gather, lower_gather},
    {OpKind::GatherElements, lower_gather_elements},
    {OpKind::GatherNd, lower_gather_nd},
    {OpKind::ScatterElements, lower_scatter_elements, {{{0b1}}}},
    {OpKind::ScatterNd, lower_scatter_nd, {{{0b1}}}},
    {OpKind::Pad, lower_pad},
    {OpKind::Trilu, lower_trilu},
    {OpKind::Range, lower_range},
    {OpKind::OneHot, lower_one_hot},
    {OpKind::DimValue, lower_dim_value},
    {OpKind::Random, lower_random},
    {OpKind::Iota, lower_iota},
    {OpKind::ReshapeTo, lower_reshape_to},
    {OpKind::NonZero, lower_non_zero},
    {OpKind::Unique, lower_unique},
    {OpKind::NonMaxSuppression, lower_non_max_suppression},
    {OpKind::Resize, lower_resize},
    {OpKind::Reduce, lower_reduce},
    {OpKind::ArgReduce, lower_arg_reduce},
    {OpKind::Cumsum, lower_cumulative},
    {OpKind::Cumprod, lower_cumulative},
    {OpKind::Det, lower_det},
    {OpKind::TopK, lower_topk},
    {OpKind::Fft, lower_fft, {}, prepack_fft},
    {OpKind::Softmax, lower_softmax, {{{0b1, keeps_type}}}},
    {OpKind::LogSoftmax, lower_softmax, {{{0b1}}}},
    {OpKind::LayerNorm, lower_norm, {{{0b1}}}},
    {OpKind::RmsNorm, lower_norm, {{{0b1}}}},
    {OpKind::FusedResidualLN, lower_norm, {{{0b11}, {0b11, stores_exact_sum}}}},
    {OpKind::FusedResidualRmsNorm, lower_norm, {{{0b11}, {0b11, stores_exact_sum}}}},
    {OpKind::GroupNorm, lower_norm, {{{0b1}}}},
    {OpKind::NormRegion, lower_norm, {{{~0u}, {~0u, serves_no_later_step}}}},
    {OpKind::ReduceRegion, lower_reduce_region, {{{~0u, gives_rows}}}},
    {OpKind::Lrn, lower_lrn},
    {OpKind::MatMul, lower_matmul, {}, prepack_matmul},
    {OpKind::FusedMatMulBiasAct, lower_matmul, {{{0b1000}}}, prepack_matmul},
    {OpKind::FusedMatMulSwiGLU, lower_matmul, {}, prepack_matmul},
    {OpKind::DotGeneral, lower_dot_general},
    {OpKind::DynamicQuantize, lower_dynamic_quantize},
    {OpKind::QMatMul, lower_matmul, {}, prepack_matmul},
    {OpKind::FusedQMatMul, lower_matmul, {}, prepack_matmul},
    {OpKind::QAttention, lower_q_attention},
    {OpKind::DequantMatMul, lower_matmul, {{{0b100000}}}, prepack_matmul},
    {OpKind::GroupedMatMul, lower_grouped_matmul},
    {OpKind::Conv, lower_conv, {}, prepack_conv},
    {OpKind::FusedConvBiasAct, lower_conv, {{{0b1000, sums_channels}}}, prepack_conv},
    {OpKind::FusedConvTransposeBiasAct, lower_conv, {{{0b1000}}}},
    {OpKind::ConvTranspose, lower_conv},
    {OpKind::QConv, lower_conv, {}, prepack_conv},
    {OpKind::FusedQConv, lower_conv, {}, prepack_conv},
    {OpKind::Pool, lower_pool},
    {OpKind::MaxPoolIndices, lower_pool},
    {OpKind::Attention, lower_attention},
    {OpKind::Lstm, lower_recurrent},
    {OpKind::Gru, lower_recurrent},
    {OpKind::Rnn, lower_recurrent},
    {OpKind::SelectiveScan, lower_selective_scan},
    {OpKind::CustomOp, lower_custom_op},
    {OpKind::AllReduce, nullptr, {{{0b1}}}},  // by the host
    {OpKind::CollectivePermute, nullptr, {{{0b1}}}},
};

const LoweringRow& row_of(OpKind op) {
  static const auto rows = [] {
    std::array<LoweringRow, kOpCount> all{};
    for (size_t i = 0; i < all.size(); ++i)
      if (ops::has_meaning(static_cast<OpKind>(i))) all[i].lower = lower_elementwise;
    for (const LoweringRow& r : kTable) all[static_cast<size_t>(r.op)] = r;
    return all;
  }();
  return rows[static_cast<size_t>(op)];
}

bool has_dtype(const Graph& g, OpKind op, ValueId v, const CapabilityRow& row, std::string* reason) {
  const Type& t = g.type(v);
  const bool by_codes =
      op == OpKind::Cast || op == OpKind::BitCast || op == OpKind::DequantMatMul;  // ops that read the bits of other types
  const DType held = by_codes ? storage_dtype(t.dtype) : t.dtype;
  if (t.kind == TypeKind::Tensor && row.dtypes.test(static_cast<size_t>(held))) return true;
  *reason = "no kernels for values of type " + text(t, g.module().dims);
  return false;
}

}  // namespace

bool has_lowering(OpKind op) { return row_of(op).lower != nullptr; }

bool supports(const Graph& g, NodeId n, const CapabilityRow& row, std::string* reason) {
  if (!has_lowering(g.op(n))) {
    *reason = "no kernel for " + std::string(kind_name(g.op(n)));
    return false;
  }
  if (g.op(n) == OpKind::Random && !row.dtypes.test(static_cast<size_t>(DType::F64))) {
    *reason = "no numbers of 64 bits to draw random ones in";
    return false;
  }
  for (ValueId v : g.operands(n))
    if (v.valid() && !has_dtype(g, g.op(n), v, row, reason)) return false;
  for (size_t i = 0; i < g.result_count(n); ++i)
    if (!has_dtype(g, g.op(n), g.result(n, i), row, reason)) return false;
  return true;
}

bool may_prepack(OpKind op) { return row_of(op).prepack != nullptr; }

LoweringInfo lower_info(const Graph& g, const GraphLayouts& layouts, NodeId n, const CapabilityRow& row,
                        const std::vector<bool>& on_load) {
  const PrepackFn prepack = row_of(g.op(n)).prepack;
  std::string reason;
  if (!prepack || !supports(g, n, row, &reason)) return {};
  Node node{g, layouts, n, row};
  return {prepack(node, on_load)};
}

bool may_overwrite(const Graph& g, NodeId n, size_t result, size_t operand) {
  const OpKind op = g.op(n);
  if (has_trait(op, kElementwise)) return result == 0 && g.result_count(n) == 1 && has_trait(op, kInPlace);
  const auto& in_place = row_of(op).in_place;
  if (result >= in_place.size() || operand >= 32 || !(in_place[result].operands >> operand & 1)) return false;
  return !in_place[result].holds || in_place[result].holds(g, n, operand);
}

std::optional<NodeKernels> lower_node(const Graph& g, const GraphLayouts& layouts, NodeId n, const CapabilityRow& row,
                                      std::span<const PrepackedBuffer> prepacked, std::string* reason) {
  if (!supports(g, n, row, reason)) return std::nullopt;
  Node node{g, layouts, n, row, prepacked};
  if (row_of(g.op(n)).lower(node)) return std::move(node.out);
  *reason = std::move(node.reason);
  return std::nullopt;
}

}  // namespace rlxc::codegen
