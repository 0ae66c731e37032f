// Decompositions of fused ops.
#include "passes/inline_body.h"
#include "passes/legalise/decompositions.h"
#include "passes/legalise/unfuse_elementwise_regions.h"

namespace rlxc::legalise {
namespace {

ValueId plus_operand(Expansion& e, ValueId x, size_t operand) { return e.has(operand) ? e.b.add(x, e.in(operand)) : x; }

std::vector<ValueId> fused_matmul(Expansion& e) {
  const auto& a = e.attrs<FusedMatMulAttrs>();
  const ValueId y = e.b.matmul(e.in(0), e.in(1), a.trans_a, a.trans_b);
  return {e.activation(plus_operand(e, plus_operand(e, y, 2), 3), a.act)};
}

std::vector<ValueId> fused_conv(Expansion& e) {
  const auto& a = e.attrs<FusedConvAttrs>();
  const OpKind conv = e.g.op(e.n) == OpKind::FusedConvBiasAct ? OpKind::Conv : OpKind::ConvTranspose;
  const ValueId y = e.b.create(conv, {e.in(0), e.in(1), e.in(2)}, a.conv);
  return {e.activation(plus_operand(e, y, 3), a.act)};
}

std::vector<ValueId> fused_residual_norm(Expansion& e) {
  const ValueId sum = plus_operand(e, e.b.add(e.in(0), e.in(1)), 2);
  const OpKind norm = e.g.op(e.n) == OpKind::FusedResidualLN ? OpKind::LayerNorm : OpKind::RmsNorm;
  return {e.b.create(norm, {sum, e.in(3), e.in(4)}, e.attrs<NormAttrs>()), sum};
}

std::vector<ValueId> fused_swiglu(Expansion& e) {
  const auto& a = e.attrs<SwiGLUAttrs>();
  const int64_t axis = e.g.rank(e.in(0)) - 1;
  const Dim half = e.result_dims().back();
  const ValueId first = e.b.narrow(e.in(0), axis, 0, half), second = e.b.narrow(e.in(0), axis, half, half);
  const ValueId up = a.gate_first ? second : first, gate = a.gate_first ? first : second;
  return {e.b.mul(up, a.act.has ? e.activation(gate, a.act) : e.b.unary(OpKind::Silu, gate))};
}

std::vector<ValueId> fused_matmul_swiglu(Expansion& e) {
  const auto& a = e.attrs<GatedMatMulAttrs>();
  const ValueId both = plus_operand(e, e.b.matmul(e.in(0), e.in(1), false, a.trans_b), 2);
  return {e.b.create(OpKind::FusedSwiGLU, {both}, SwiGLUAttrs{a.gate_first, a.act})};
}

std::vector<ValueId> region(Expansion& e) { return unfuse_region(e.g, e.n); }

std::vector<ValueId> custom_op(Expansion& e) {
  const std::vector<ValueId> operands(e.g.operands(e.n).begin(), e.g.operands(e.n).end());
  return copy_body(e.g, e.n, e.g.module().graph(e.g.bodies(e.n)[0]), operands);
}

}  // namespace

std::span<const DecompositionEntry> fused_decompositions() {
  static constexpr DecompositionEntry kTable[] = {
      {OpKind::CustomOp, custom_op},
      {OpKind::FusedMatMulBiasAct, fused_matmul},
      {OpKind::FusedConvBiasAct, fused_conv},
      {OpKind::FusedConvTransposeBiasAct, fused_conv},
      {OpKind::FusedResidualLN, fused_residual_norm},
      {OpKind::FusedResidualRmsNorm, fused_residual_norm},
      {OpKind::FusedMatMulSwiGLU, fused_matmul_swiglu},
      {OpKind::FusedSwiGLU, fused_swiglu},
      {OpKind::ElementwiseRegion, region},
      {OpKind::ConcatRegion, region},
      {OpKind::NormRegion, region},
      {OpKind::ReduceRegion, region},
      {OpKind::FusedQMatMul, region},
      {OpKind::FusedQConv, region},
      {OpKind::QAttention, region},
  };
  return kTable;
}

}  // namespace rlxc::legalise
