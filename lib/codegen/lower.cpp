#include "codegen/lower.h"

#include <algorithm>
#include <array>

#include "analysis/views.h"
#include "codegen/lowerings.h"
#include "ops/elementwise.h"

namespace rlxc::codegen {
namespace {

using LowerFn = bool (*)(const Node&);

struct Row {
  OpKind op;
  LowerFn lower;
  bool keeps = false;  // some of its forms keep something from when weights are loaded
};
constexpr Row kTable[] = {
    {OpKind::Reshape, lower_reshape},
    {OpKind::Transpose, lower_transpose},
    {OpKind::Narrow, lower_narrow},
    {OpKind::Slice, lower_slice},
    {OpKind::Expand, lower_expand},
    {OpKind::Reverse, lower_reverse},
    {OpKind::Tile, lower_tile},
    {OpKind::Concat, lower_concat},
    {OpKind::FusedSwiGLU, lower_swiglu},
    {OpKind::Rope, lower_rope},
    {OpKind::ElementwiseRegion, lower_region},
    {OpKind::Where, lower_elementwise},
    {OpKind::Cast, lower_cast},
    {OpKind::BitCast, lower_bit_cast},
    {OpKind::BatchNormInference, lower_batch_norm},
    {OpKind::Quantize, lower_quantize},
    {OpKind::Dequantize, lower_dequantize},
    {OpKind::Gather, lower_gather},
    {OpKind::GatherElements, lower_gather_elements},
    {OpKind::GatherNd, lower_gather_nd},
    {OpKind::ScatterElements, lower_scatter_elements},
    {OpKind::ScatterNd, lower_scatter_nd},
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
    {OpKind::Fft, lower_fft, true},
    {OpKind::Softmax, lower_softmax},
    {OpKind::LogSoftmax, lower_softmax},
    {OpKind::LayerNorm, lower_norm},
    {OpKind::RmsNorm, lower_norm},
    {OpKind::FusedResidualLN, lower_norm},
    {OpKind::FusedResidualRmsNorm, lower_norm},
    {OpKind::GroupNorm, lower_norm},
    {OpKind::NormRegion, lower_norm},
    {OpKind::ReduceRegion, lower_reduce_region},
    {OpKind::Lrn, lower_lrn},
    {OpKind::MatMul, lower_matmul, true},
    {OpKind::FusedMatMulBiasAct, lower_fused_matmul, true},
    {OpKind::FusedMatMulSwiGLU, lower_matmul_swiglu, true},
    {OpKind::DotGeneral, lower_dot_general},
    {OpKind::QMatMul, lower_q_matmul, true},
    {OpKind::DequantMatMul, lower_dequant_matmul, true},
    {OpKind::GroupedMatMul, lower_grouped_matmul},
    {OpKind::Conv, lower_conv, true},
    {OpKind::FusedConvBiasAct, lower_fused_conv, true},
    {OpKind::FusedConvTransposeBiasAct, lower_fused_conv},
    {OpKind::ConvTranspose, lower_conv_transpose},
    {OpKind::QConv, lower_q_conv, true},
    {OpKind::Pool, lower_pool},
    {OpKind::MaxPoolIndices, lower_pool},
    {OpKind::Attention, lower_attention},
    {OpKind::Lstm, lower_recurrent},
    {OpKind::Gru, lower_recurrent},
    {OpKind::Rnn, lower_recurrent},
    {OpKind::SelectiveScan, lower_selective_scan},
};

const Row& row_of(OpKind op) {
  static const auto rows = [] {
    std::array<Row, kOpCount> all{};
    for (size_t i = 0; i < all.size(); ++i)
      if (ops::has_meaning(static_cast<OpKind>(i))) all[i].lower = lower_elementwise;
    for (const Row& r : kTable) all[static_cast<size_t>(r.op)] = r;
    return all;
  }();
  return rows[static_cast<size_t>(op)];
}

bool has_dtype(const Graph& g, OpKind op, ValueId v, const CapabilityRow& row, std::string* why) {
  const Type& t = g.type(v);
  const bool by_codes =
      op == OpKind::Cast || op == OpKind::BitCast || op == OpKind::DequantMatMul;  // of types that kernels do not hold
  const DType held = by_codes ? storage_dtype(t.dtype) : t.dtype;
  if (t.kind == TypeKind::Tensor && row.dtypes.test(static_cast<size_t>(held))) return true;
  *why = "no kernels for values of type " + text(t, g.module().dims);
  return false;
}

}  // namespace

bool has_lowering(OpKind op) { return row_of(op).lower != nullptr; }

bool supports(const Graph& g, NodeId n, const CapabilityRow& row, std::string* why) {
  if (!has_lowering(g.op(n))) {
    *why = "no kernel for " + std::string(kind_name(g.op(n)));
    return false;
  }
  if (g.op(n) == OpKind::Random && !row.dtypes.test(static_cast<size_t>(DType::F64))) {
    *why = "no numbers of 64 bits to draw random ones in";
    return false;
  }
  for (ValueId v : g.operands(n))
    if (v.valid() && !has_dtype(g, g.op(n), v, row, why)) return false;
  for (size_t i = 0; i < g.result_count(n); ++i)
    if (!has_dtype(g, g.op(n), g.result(n, i), row, why)) return false;
  return true;
}

std::optional<NodeKernels> lower_node(const Graph& g, NodeId n, const CapabilityRow& row, const IsWeight& is_weight,
                                      std::string* why) {
  if (!supports(g, n, row, why)) return std::nullopt;
  NodeKernels out;
  if (!row_of(g.op(n)).lower(Node{g, n, row, is_weight, out, *why})) return std::nullopt;
  return out;
}

bool may_keep(OpKind op) { return row_of(op).keeps; }

std::vector<Scratch> kept_scratch(const Graph& g, NodeId n, const CapabilityRow& row, const IsWeight& is_weight) {
  NodeKernels out;
  std::string why;
  if (!may_keep(g.op(n)) || !is_weight || !supports(g, n, row, &why)) return {};
  row_of(g.op(n)).lower(Node{g, n, row, is_weight, out, why, true});
  std::erase_if(out.scratch, [](const Scratch& s) { return !s.on_load; });
  return std::move(out.scratch);
}

std::vector<uint32_t> lowering_key(const Graph& g, NodeId n, const IsWeight& is_weight) {
  std::vector<uint32_t> key = {static_cast<uint32_t>(g.op(n)), g.attr_id(n).raw, static_cast<uint32_t>(g.operands(n).size()),
                               uint32_t{is_weight != nullptr}};
  for (ValueId v : g.operands(n))
    key.insert(key.end(), {v.valid() ? g.type_id(v).raw : ~uint32_t{0}, uint32_t{v.valid() && is_weight && is_weight(v)}});
  for (size_t i = 0; i < g.result_count(n); ++i) key.push_back(g.type_id(g.result(n, i)).raw);
  const auto add_layout = [&](size_t i, ValueId v) {
    const auto layout = v.valid() ? layout_in_larger(g, v) : std::nullopt;
    if (!layout) return;
    key.insert(key.end(), {static_cast<uint32_t>(i), static_cast<uint32_t>(layout->starts.size())});
    for (Dim d : layout->starts) key.insert(key.end(), {static_cast<uint32_t>(d.raw() >> 32), static_cast<uint32_t>(d.raw())});
    for (const auto& axis : layout->axes) {
      key.push_back(static_cast<uint32_t>(axis.size()));
      for (const Piece& p : axis)
        for (Dim d : {p.size, p.stride})
          key.insert(key.end(), {static_cast<uint32_t>(d.raw() >> 32), static_cast<uint32_t>(d.raw())});
    }
  };
  const size_t operands = g.operands(n).size();
  for (size_t i = 0; i < operands; ++i) add_layout(i, g.operand(n, i));
  for (size_t i = 0; i < g.result_count(n); ++i) add_layout(operands + i, g.result(n, i));
  return key;
}

}  // namespace rlxc::codegen
