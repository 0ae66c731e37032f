#include "passes/fuse/weight_matmul.h"

#include <algorithm>

#include "passes/fuse/join_rows.h"

namespace rlxc::fuse {

namespace {

bool by_codes(const Graph& g, NodeId n) { return g.op(n) == OpKind::DequantMatMul; }

// Expands a scale or zero point to one entry per block and column.
ValueId spread(Builder& b, ValueId v, Dim blocks, Dim columns, bool trans_b) {
  return b.expand(v, trans_b ? std::vector{columns, blocks} : std::vector{blocks, columns});
}

}  // namespace

bool is_weight_matmul(const Graph& g, NodeId n) {
  if (g.op(n) == OpKind::MatMul) return !g.attrs<MatMulAttrs>(n).trans_a && g.rank(g.operand(n, 1)) == 2;
  if (!by_codes(g, n)) return false;
  const auto& a = g.attrs<DequantMatMulAttrs>(n);
  return !g.operand(n, 4).valid() && !g.operand(n, 5).valid() && !a.act.has && !a.gated;
}

bool trans_b(const Graph& g, NodeId n) {
  return by_codes(g, n) ? g.attrs<DequantMatMulAttrs>(n).trans_b : g.attrs<MatMulAttrs>(n).trans_b;
}

const char* packing_conflict(const Graph& g, NodeId a, NodeId b) {
  if (g.op(a) != g.op(b)) return "quantization_differs";
  if (trans_b(g, a) != trans_b(g, b)) return "layout_differs";
  if (!by_codes(g, a)) return nullptr;
  const auto &x = g.attrs<DequantMatMulAttrs>(a), &y = g.attrs<DequantMatMulAttrs>(b);
  if (x.block != y.block || x.int8_x != y.int8_x) return "quantization_differs";
  for (size_t i = 1; i < 4; ++i) {
    const ValueId v = g.operand(a, i), w = g.operand(b, i);
    if (v.valid() != w.valid() || (v.valid() && g.dtype(v) != g.dtype(w))) return "quantization_differs";
  }
  return nullptr;
}

ValueId concatenated_matmul(Builder& b, ValueId x, std::span<const NodeId> nodes) {
  Graph& g = b.graph();
  const bool swapped = trans_b(g, nodes[0]);
  JoinRows join_rows(b);
  const auto join = [&](size_t operand) {
    const ValueId first = g.operand(nodes[0], operand);
    const bool same = std::ranges::all_of(nodes, [&](NodeId n) { return g.operand(n, operand) == first; });
    if (operand > 1 && same && g.dims(first)[0] == Dim(1) && g.dims(first)[1] == Dim(1)) return first;  // one entry for all
    std::vector<ValueId> parts;
    Dim blocks(1);
    for (NodeId n : nodes)
      if (const Dim d = g.dims(g.operand(n, operand))[swapped]; operand > 1 && d != Dim(1)) blocks = d;
    for (NodeId n : nodes) {
      const ValueId v = g.operand(n, operand);
      parts.push_back(operand > 1 ? spread(b, v, blocks, g.dims(g.operand(n, 1))[!swapped], swapped) : v);
    }
    return swapped ? join_rows(parts) : b.concat(parts, 1);
  };
  if (!by_codes(g, nodes[0])) return b.matmul(x, join(1), false, swapped);
  const bool zero = g.operand(nodes[0], 3).valid();
  return b.create(OpKind::DequantMatMul, {x, join(1), join(2), zero ? join(3) : ValueId()},
                  g.attrs<DequantMatMulAttrs>(nodes[0]));
}

OpKind kind_with_end(OpKind matmul) { return matmul == OpKind::MatMul ? OpKind::FusedMatMulBiasAct : matmul; }

ValueId with_end(Builder& b, NodeId n, ValueId bias, ValueId residual, const Epilogue& act) {
  const Graph& g = b.graph();
  const auto in = [&](size_t i) { return g.operand(n, i); };
  if (by_codes(g, n)) {
    auto a = g.attrs<DequantMatMulAttrs>(n);
    a.act = act;
    return b.create(g.op(n), {in(0), in(1), in(2), in(3), bias, residual}, a);
  }
  const auto& a = g.attrs<MatMulAttrs>(n);
  return b.create(OpKind::FusedMatMulBiasAct, {in(0), in(1), bias, residual}, FusedMatMulAttrs{a.trans_a, a.trans_b, act});
}

bool takes_residual(const Graph& g, NodeId n) {
  if (by_codes(g, n)) {
    const auto& a = g.attrs<DequantMatMulAttrs>(n);
    return !g.operand(n, 5).valid() && !a.act.has && !a.gated;
  }
  if (g.op(n) == OpKind::FusedMatMulBiasAct) return !g.operand(n, 3).valid() && !g.attrs<FusedMatMulAttrs>(n).act.has;
  return g.op(n) == OpKind::MatMul;
}

ValueId with_residual(Builder& b, NodeId n, ValueId residual, const Epilogue& act) {
  const Graph& g = b.graph();
  if (g.op(n) != OpKind::FusedMatMulBiasAct) return with_end(b, n, by_codes(g, n) ? g.operand(n, 4) : ValueId(), residual, act);
  auto a = g.attrs<FusedMatMulAttrs>(n);
  a.act = act;
  return b.create(g.op(n), {g.operand(n, 0), g.operand(n, 1), g.operand(n, 2), residual}, a);
}

OpKind kind_with_gate(OpKind matmul) { return matmul == OpKind::MatMul ? OpKind::FusedMatMulSwiGLU : matmul; }

ValueId with_gate(Builder& b, NodeId n, ValueId bias, const SwiGLUAttrs& gate) {
  const Graph& g = b.graph();
  const auto in = [&](size_t i) { return g.operand(n, i); };
  if (by_codes(g, n)) {
    auto a = g.attrs<DequantMatMulAttrs>(n);
    a.act = gate.act;
    a.gated = true;
    a.gate_first = gate.gate_first;
    return b.create(g.op(n), {in(0), in(1), in(2), in(3), bias}, a);
  }
  return b.create(OpKind::FusedMatMulSwiGLU, {in(0), in(1), bias}, GatedMatMulAttrs{trans_b(g, n), gate.gate_first, gate.act});
}

}  // namespace rlxc::fuse
