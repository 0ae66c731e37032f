// Lowers HIR blocks to tensor ops; afterwards the module is at the MIR. FusionPolicy::Fusable (the default) emits primitive
// chains, which the fusion passes see whole; Direct emits fused ops where they exist. Every new node has the block's name or
// label among its sources. Dims may be symbolic. O(nodes).
#include "ir/graphs.h"
#include "passes/legalise/decompositions.h"
#include "passes/passes.h"

namespace rlxc {
namespace {

using legalise::Expansion;
using Values = std::vector<ValueId>;

Values fused_linear(Expansion& e) {
  return {e.b.create(OpKind::FusedMatMulBiasAct, {e.in(0), e.in(1), e.in(2)}, e.attrs<FusedMatMulAttrs>())};
}

Values linear(Expansion& e) {
  const auto& a = e.attrs<FusedMatMulAttrs>();
  const ValueId y = e.b.matmul(e.in(0), e.in(1), a.trans_a, a.trans_b);
  return {e.activation(e.has(2) ? e.b.add(y, e.in(2)) : y, a.act)};
}
Values linear_direct(Expansion& e) { return e.has(2) ? fused_linear(e) : linear(e); }

Values shared_linear_pair(Expansion& e) { return {e.b.matmul(e.in(0), e.in(1)), e.b.matmul(e.in(0), e.in(2))}; }

// (x*up * silu(x*gate)) * down
ValueId gated_ffn(Expansion& e, ValueId x, ValueId up, ValueId gate, ValueId down) {
  const ValueId u = e.b.matmul(x, up), g = e.b.unary(OpKind::Silu, e.b.matmul(x, gate));
  return e.b.matmul(e.b.mul(g, u), down);
}
Values swiglu(Expansion& e) { return {gated_ffn(e, e.in(0), e.in(1), e.in(2), e.in(3))}; }
Values swiglu_direct(Expansion& e) {
  const Values weights{e.in(1), e.in(2)};
  const ValueId packed = e.b.matmul(e.in(0), e.b.concat(weights, 1));
  return {e.b.matmul(e.b.create(OpKind::FusedSwiGLU, {packed}, SwiGLUAttrs{}), e.in(3))};
}

Values residual_rms_norm(Expansion& e) {
  return {e.b.create(OpKind::RmsNorm, {e.b.add(e.in(0), e.in(1)), e.in(2), e.in(3)}, e.attrs<NormAttrs>())};
}
Values residual_rms_norm_direct(Expansion& e) {
  return {e.b.create(OpKind::FusedResidualRmsNorm, {e.in(0), e.in(1), ValueId(), e.in(2), e.in(3)}, e.attrs<NormAttrs>())};
}

Values depthwise_conv(Expansion& e) {
  const ValueId x = e.in(0), w = e.in(1);
  const Dim channels = e.dim(w, 0);
  if (!channels.is_static()) return {};
  const Values rows{e.in(2), x};
  ConvAttrs a{{1}, {0}, {0}, {1}, {}, channels.size()};
  const ValueId columns = e.b.transpose(e.b.concat(rows, 1), {0, 2, 1});
  const ValueId y = e.b.create(OpKind::Conv, {columns, e.b.reshape(w, {channels, Dim(1), e.dim(w, -1)})}, a);
  return {e.b.transpose(y, {0, 2, 1})};
}

Values decoder_block(Expansion& e) {
  enum { kX, kNorm1, kShift1, kQ, kK, kV, kO, kNorm2, kShift2, kGate, kUp, kDown, kCos, kSin, kMask };
  const auto& a = e.attrs<DecoderAttrs>();
  const ValueId x = e.in(kX);
  const NormAttrs norm{e.g.rank(x) - 1, a.eps};
  const ValueId n = e.b.create(OpKind::RmsNorm, {x, e.in(kNorm1), e.in(kShift1)}, norm);
  const RopeAttrs rope{a.head_dim, a.head_dim, RopeStyle::NeoX, AttentionLayout::Packed};
  const ValueId q = e.b.create(OpKind::Rope, {e.b.matmul(n, e.in(kQ)), e.in(kCos), e.in(kSin)}, rope);
  const ValueId k = e.b.create(OpKind::Rope, {e.b.matmul(n, e.in(kK)), e.in(kCos), e.in(kSin)}, rope);
  AttentionAttrs attention;
  attention.num_heads = a.num_heads;
  attention.num_kv_heads = a.kv_heads();
  attention.layout = attention.out_layout = AttentionLayout::Packed;
  attention.mask = a.mask;
  const ValueId heads = e.b.create(OpKind::Attention, {q, k, e.b.matmul(n, e.in(kV)), e.in(kMask)}, attention);
  const ValueId y = e.b.add(x, e.b.matmul(heads, e.in(kO)));
  const ValueId m = e.b.create(OpKind::RmsNorm, {y, e.in(kNorm2), e.in(kShift2)}, norm);
  return {e.b.add(y, gated_ffn(e, m, e.in(kUp), e.in(kGate), e.in(kDown)))};
}

struct Lowering {
  OpKind op;
  legalise::Decomposition fusable, direct;
};
constexpr Lowering kLowerings[] = {
    {OpKind::Linear, linear, linear_direct},
    {OpKind::LinearFused, fused_linear, fused_linear},
    {OpKind::SharedLinearPair, shared_linear_pair, shared_linear_pair},
    {OpKind::SwiGLU, swiglu, swiglu_direct},
    {OpKind::ResidualRmsNorm, residual_rms_norm, residual_rms_norm_direct},
    {OpKind::DepthwiseConv1dCausal, depthwise_conv, depthwise_conv},
    {OpKind::LlamaDecoderBlock, decoder_block, decoder_block},
};

const Lowering* find(OpKind op) {
  for (const Lowering& l : kLowerings)
    if (l.op == op) return &l;
  return nullptr;
}

}  // namespace

PassResult lower_hir(Module& m, PassContext& context) {
  int64_t lowered = 0;
  const bool was_hir = m.stage == Stage::Hir;
  for (GraphId id : graphs_in_use(m)) {
    Graph& g = m.graph(id);
    for (NodeId n : g.nodes()) {
      if (!has_trait(g.op(n), kHir)) continue;
      const Lowering* l = find(g.op(n));
      const std::string where = "node " + g.label(n).quoted() + " (" + std::string(name(g.op(n))) + ")";
      if (l && legalise::expand_node(g, n, context.options.fusion == FusionPolicy::Direct ? l->direct : l->fusable)) ++lowered;
      else context.diagnostics.error(Code::UnsupportedAttribute, "the block cannot be lowered with these operands", where);
    }
  }
  if (was_hir) m.stage = Stage::Mir;
  return {lowered > 0 || was_hir, {{"blocks_lowered", lowered}}};
}

}  // namespace rlxc
