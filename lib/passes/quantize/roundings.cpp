#include "passes/quantize/roundings.h"

#include <algorithm>

#include "ir/op_rules.h"
#include "passes/match.h"
#include "passes/provenance.h"

namespace rlxc {

bool rounds_by_one(const Graph& g, NodeId n) {
  if (g.op(n) != OpKind::Quantize && g.op(n) != OpKind::Dequantize) return false;
  const auto is_one = [&](ValueId v) { return num_elements(g.type(v)) == 1; };
  const ValueId zero = g.operand(n, 2);
  return g.attrs<QuantAttrs>(n).block == 0 && is_one(g.operand(n, 1)) && (!zero.valid() || is_one(zero));
}

std::vector<NodeId> moves_above(const Graph& g, ValueId* v, size_t most) {
  std::vector<NodeId> moves;
  for (NodeId n = g.def(*v); moves.size() < most && n.valid() && g.has_one_use(*v); n = g.def(*v)) {
    if (g.op(n) != OpKind::Reshape && g.op(n) != OpKind::Transpose) break;
    moves.push_back(n);
    *v = g.operand(n, 0);
  }
  return moves;
}

ValueId moved_alike(Builder& b, std::span<const NodeId> moves, ValueId v) {
  const Graph& g = b.graph();
  for (auto n = moves.rbegin(); n != moves.rend(); ++n) v = b.create(g.op(*n), {v}, g.module().attrs[g.attr_id(*n)]);
  return v;
}

ValueId rounded_alike(Builder& b, NodeId n, ValueId v) {
  const Graph& g = b.graph();
  const auto scalar_of = [&](ValueId number) { return number.valid() ? b.reshape(number, {}) : number; };
  QuantAttrs a = g.attrs<QuantAttrs>(n);
  a.axis = 0;
  return b.create(g.op(n), {v, scalar_of(g.operand(n, 1)), scalar_of(g.operand(n, 2))}, a);
}

bool join_pair(Graph& g, NodeId dequantize) {
  constexpr int kMostReshapes = 4;
  ValueId codes = g.operand(dequantize, 0);
  int reshapes = 0;
  for (; reshapes < kMostReshapes && match::defining_op(g, codes, OpKind::Reshape).valid() && g.has_one_use(codes); ++reshapes)
    codes = g.operand(g.def(codes), 0);
  const bool one = match::defining_op(g, codes, OpKind::Quantize).valid() && g.has_one_use(codes);
  if (reshapes == 0 || !one || !rounds_by_one(g, dequantize)) return false;
  Builder b(g, nullptr, dequantize);
  const size_t before = g.node_capacity();
  const std::vector<Dim> dims(g.dims(g.result(dequantize)).begin(), g.dims(g.result(dequantize)).end());
  const ValueId floats = b.reshape(rounded_alike(b, dequantize, codes), dims);
  const NodeId members[] = {dequantize};
  merge_origins_since(g, before, members);
  match::replace(g, g.result(dequantize), floats);
  return true;
}

bool pools_codes(const Graph& g, NodeId n) {
  if (g.op(n) != OpKind::Pool || g.attrs<PoolAttrs>(n).op != ReduceOp::Max) return false;
  const auto& a = g.attrs<PoolAttrs>(n);
  bool fits = !a.ceil_mode;
  for (size_t i = 0; i < a.kernel.size(); ++i) {
    const int64_t most = std::max(a.pads_begin[i], a.pads_end[i]);
    fits = fits && (most == 0 || (a.dilations[i] == 1 && most < a.kernel[i]));
  }
  return fits;
}

bool selects_positions(const Graph& g, NodeId n) {
  if (g.op(n) != OpKind::Resize) return false;
  const auto& a = g.attrs<ResizeAttrs>(n);
  return a.mode == ResizeMode::Nearest && a.coord != CoordMode::TfCropAndResize && !a.antialias;
}

NodeId contraction_of(const Graph& g, ValueId v, bool pairs) {
  constexpr size_t kMostSteps = 24;
  for (size_t steps = 0; steps < kMostSteps && g.def(v).valid(); ++steps) {
    const NodeId n = g.def(v);
    if (g.op(n) == OpKind::QMatMul || g.op(n) == OpKind::QConv || g.op(n) == OpKind::MatMul) return n;
    if (!(pairs && rounds_by_one(g, n)) && !has_trait(g.op(n), kElementwise)) return {};
    const auto same = std::ranges::find_if(g.operands(n), [&](ValueId o) { return o.valid() && match::same_dims(g, o, v); });
    if (same == g.operands(n).end()) return {};
    v = *same;
  }
  return {};
}

}  // namespace rlxc
