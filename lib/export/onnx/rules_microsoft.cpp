// Fused operations as operators of com.microsoft, and those that ONNX Runtime adds to the standard domain.
#include <algorithm>

#include "export/onnx/writer.h"

namespace rlxc::onnx_export {
namespace {

constexpr std::string_view kMicrosoft = "com.microsoft";

// The name of an activation at the end of a product or a convolution; empty if there is none for it.
std::string_view activation_name(const Epilogue& e) {
  switch (e.op) {
    case OpKind::Relu: return "Relu";
    case OpKind::Tanh: return "Tanh";
    case OpKind::Sigmoid: return "Sigmoid";
    case OpKind::LeakyRelu: return "LeakyRelu";
    default: return {};
  }
}
bool is_known(const Epilogue& e) { return !e.has || !activation_name(e).empty(); }

bool fused_gemm(const Site& s) {
  const FusedMatMulAttrs& f = s.attrs<FusedMatMulAttrs>();
  Attributes a;
  a.integer("transA", f.trans_a).integer("transB", f.trans_b);
  const Names in{s.in(0), s.in(1), s.has(2) ? s.in(2) : s.in(3)};
  if (!f.act.has) return s.be("Gemm", in, a);
  a.string("activation", activation_name(f.act));
  if (f.act.op == OpKind::LeakyRelu) a.number("activation_alpha", f.act.alpha);
  return s.be("FusedGemm", in, a, kMicrosoft);
}
bool is_fused_gemm(const Graph& g, NodeId n, int64_t) {
  const bool one = !(g.operand(n, 2).valid() && g.operand(n, 3).valid());  // a bias or a residual
  return one && g.rank(g.operand(n, 0)) == 2 && g.rank(g.operand(n, 1)) == 2 && g.dtype(g.result(n)) == DType::F32 &&
         is_known(g.attrs<FusedMatMulAttrs>(n).act);
}

bool fused_conv(const Site& s) {
  const FusedConvAttrs& f = s.attrs<FusedConvAttrs>();
  std::vector<int64_t> pads = f.conv.pads_begin;
  pads.insert(pads.end(), f.conv.pads_end.begin(), f.conv.pads_end.end());
  Attributes a;
  a.integers("strides", f.conv.strides).integers("pads", pads).integers("dilations", f.conv.dilations);
  a.integer("group", f.conv.groups);
  if (f.act.has) a.string("activation", activation_name(f.act));
  if (f.act.has && f.act.op == OpKind::LeakyRelu) a.numbers("activation_params", {f.act.alpha});
  return s.be("FusedConv", s.all(), a, kMicrosoft);
}
bool is_fused_conv(const Graph& g, NodeId n, int64_t) {
  return g.rank(g.operand(n, 0)) == 4 && g.dtype(g.result(n)) == DType::F32 && is_known(g.attrs<FusedConvAttrs>(n).act);
}

// Results: the norm, two statistics that nobody asks for, and the sum.
void skip_norm(const Site& s, std::string_view op, const Names& in) {
  const Attributes a = std::move(Attributes().number("epsilon", s.attrs<NormAttrs>().eps));
  s.w.node_of(op, in, a, {s.out(0), "", "", s.out(1)}, kMicrosoft);
}
bool skip_layer_norm(const Site& s) {
  skip_norm(s, "SkipLayerNormalization", {s.in(0), s.in(1), s.in(3), s.in(4), s.in(2)});
  return true;
}
bool skip_rms_norm(const Site& s) {
  skip_norm(s, "SkipSimplifiedLayerNormalization", {s.in(0), s.in(1), s.in(3), s.in(2)});
  return true;
}
bool is_skip_norm(const Graph& g, NodeId n, int64_t) {
  const ValueId x = g.operand(n, 0), residual = g.operand(n, 1), gamma = g.operand(n, 3), bias = g.operand(n, 2);
  const bool vectors = gamma.valid() && g.rank(gamma) == 1 && (!bias.valid() || g.rank(bias) == 1);
  const bool shifts = g.op(n) == OpKind::FusedResidualRmsNorm && g.operand(n, 4).valid();
  return vectors && !shifts && g.rank(x) == 3 && g.attrs<NormAttrs>(n).axis == 2 &&
         std::ranges::equal(g.dims(x), g.dims(residual)) && g.dtype(x) == DType::F32;
}
bool simplified_norm(const Site& s) {
  return s.be("SimplifiedLayerNormalization", s.all(),
              Attributes().integer("axis", s.attrs<NormAttrs>().axis).number("epsilon", s.attrs<NormAttrs>().eps));
}
bool is_simplified_norm(const Graph& g, NodeId n, int64_t) {
  return g.operand(n, 1).valid() && !g.operand(n, 2).valid() && g.dtype(g.result(n)) == DType::F32;
}

// Queries, keys and values as [B,S,H*D].
bool multi_head_attention(const Site& s) {
  const AttentionAttrs& t = s.attrs<AttentionAttrs>();
  const bool packed = t.layout == AttentionLayout::Packed;
  const auto rows = [&](size_t i) {
    if (packed) return s.in(i);
    return s.w.node("Reshape", {s.in(i), s.w.ints({0, 0, -1})});
  };
  Attributes a;
  a.integer("num_heads", packed ? t.num_heads : s.dims(0)[2].size()).integer("unidirectional", t.mask == MaskKind::Causal);
  if (t.scale != 0) a.number("scale", t.scale);
  Names in{rows(0), rows(1), rows(2)};
  if (t.mask == MaskKind::Bias) in.insert(in.end(), {"", "", s.in(3)});
  if (t.out_layout == AttentionLayout::Packed) return s.be("MultiHeadAttention", in, a, kMicrosoft);
  const std::string y = s.w.fresh("v");
  s.w.node_of("MultiHeadAttention", in, a, {y}, kMicrosoft);
  return s.be("Reshape", {y, s.w.sizes(s.result_dims())});
}
bool is_multi_head_attention(const Graph& g, NodeId n, int64_t) {
  const AttentionAttrs& t = g.attrs<AttentionAttrs>(n);
  const ValueId q = g.operand(n, 0), k = g.operand(n, 1), v = g.operand(n, 2), mask = g.operand(n, 3);
  if (t.layout == AttentionLayout::BHSD || t.out_layout == AttentionLayout::BHSD || t.softcap != 0 || t.finite_mask) return false;
  const bool packed = t.layout == AttentionLayout::Packed;
  if (packed ? t.num_kv_heads != 0 && t.num_kv_heads != t.num_heads : !g.dims(q)[2].is_static() || g.dims(q)[2] != g.dims(k)[2])
    return false;
  if (g.dims(k).back() != g.dims(v).back() || g.dtype(q) != DType::F32 || g.dtype(k) != DType::F32 || g.operands(n).size() > 4)
    return false;
  const bool square = g.dims(q)[1] == g.dims(k)[1];
  return (t.mask == MaskKind::None && !mask.valid()) || (t.mask == MaskKind::Causal && !mask.valid() && square) ||
         (t.mask == MaskKind::Bias && g.rank(mask) == 4 && g.dims(mask)[2] == g.dims(q)[1] && g.dims(mask)[3] == g.dims(k)[1]);
}

bool quick_gelu(const Site& s) {
  return s.be("QuickGelu", s.all(), Attributes().number("alpha", s.attrs<AlphaBetaAttrs>().alpha), kMicrosoft);
}
bool quick_silu(const Site& s) { return s.be("QuickGelu", s.all(), Attributes().number("alpha", 1), kMicrosoft); }
bool is_single(const Graph& g, NodeId n, int64_t) { return g.dtype(g.result(n)) == DType::F32; }

}  // namespace

std::span<const RuleEntry> microsoft_rules() {
  static constexpr RuleEntry kTable[] = {
      {OpKind::FusedMatMulBiasAct, fused_gemm, is_fused_gemm},
      {OpKind::FusedConvBiasAct, fused_conv, is_fused_conv},
      {OpKind::FusedResidualLN, skip_layer_norm, is_skip_norm},
      {OpKind::FusedResidualRmsNorm, skip_rms_norm, is_skip_norm},
      {OpKind::RmsNorm, simplified_norm, is_simplified_norm},
      {OpKind::Attention, multi_head_attention, is_multi_head_attention},
      {OpKind::Swish, quick_gelu, is_single},
      {OpKind::Silu, quick_silu, is_single},
  };
  return kTable;
}

}  // namespace rlxc::onnx_export
