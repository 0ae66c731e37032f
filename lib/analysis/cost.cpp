#include "analysis/cost.h"

#include "analysis/views.h"

namespace rlxc {
namespace {

double elements(const Graph& g, ValueId v) { return static_cast<double>(num_elements(g.type(v)).value_or(0)); }
double size_of(Dim d) { return d.is_static() ? static_cast<double>(d.size()) : 0; }

double contraction_size(const Graph& g, NodeId n) {
  const auto a = g.dims(g.operand(n, 0)), b = g.dims(g.operand(n, 1));
  switch (g.op(n)) {
    case OpKind::MatMul: return size_of(a[a.size() - (g.attrs<MatMulAttrs>(n).trans_a ? 2 : 1)]);
    case OpKind::FusedMatMulBiasAct:
    case OpKind::Linear:
    case OpKind::LinearFused: return size_of(a[a.size() - (g.attrs<FusedMatMulAttrs>(n).trans_a ? 2 : 1)]);
    case OpKind::FusedMatMulSwiGLU: return 2 * size_of(a.back());  // two columns for each of the result
    case OpKind::QMatMul: return size_of(a.back());
    case OpKind::DotGeneral: {
      double k = 1;
      for (int64_t axis : g.attrs<DotGeneralAttrs>(n).lhs_contracting) k *= size_of(a[static_cast<size_t>(axis)]);
      return k;
    }
    case OpKind::Conv:
    case OpKind::FusedConvBiasAct:
    case OpKind::QConv: {
      double k = 1;
      for (size_t i = 1; i < b.size(); ++i) k *= size_of(b[i]);
      return k;
    }
    default: return 0;
  }
}

double flops(const Graph& g, NodeId n) {
  const OpKind op = g.op(n);
  const double out = g.result_count(n) ? elements(g, g.result(n)) : 0;
  if (op == OpKind::Attention) {  // two products over the keys
    const auto& a = g.attrs<AttentionAttrs>(n);
    const auto k = g.dims(g.operand(n, 1));
    const double keys = size_of(a.layout == AttentionLayout::BHSD ? k[a.k_transposed ? 3 : 2] : k[1]);
    return 4 * elements(g, g.operand(n, 0)) * keys;
  }
  if (op == OpKind::ConvTranspose) {
    double taps = 1;
    const auto w = g.dims(g.operand(n, 1));
    for (size_t i = 1; i < w.size(); ++i) taps *= size_of(w[i]);
    return 2 * elements(g, g.operand(n, 0)) * taps;
  }
  if (has_trait(op, kBlas)) return 2 * out * contraction_size(g, n);
  if (op == OpKind::ElementwiseRegion) return out * static_cast<double>(g.attrs<RegionAttrs>(n).steps.size());
  if (has_trait(op, kElementwise)) return out;
  if (has_trait(op, kReduction)) return elements(g, g.operand(n, 0)) * (has_trait(op, kNormTrait) ? 6 : 1);
  return 0;
}

}  // namespace

Cost node_cost(const Graph& g, NodeId n) {
  Cost c;
  if (has_trait(g.op(n), kLeaf | kTerminator) || view_of(g, n)) return c;
  const auto bytes = [&](ValueId v) { return v.valid() ? static_cast<int64_t>(byte_size(g.type(v)).value_or(0)) : 0; };
  c.flops = flops(g, n);
  for (ValueId v : g.operands(n)) c.bytes_read += bytes(v);
  for (size_t r = 0; r < g.result_count(n); ++r) c.bytes_written += bytes(g.result(n, r));
  if (has_trait(g.op(n), kMovement) && g.op(n) != OpKind::Concat)
    c.bytes_read = std::min(c.bytes_read, c.bytes_written * 2);  // selects
  return c;
}

}  // namespace rlxc
