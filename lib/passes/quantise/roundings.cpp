#include "passes/quantise/roundings.h"

#include <algorithm>

#include "ir/op_rules.h"
#include "passes/match.h"

namespace rlxc {

bool rounds_by_one(const Graph& g, NodeId n) {
  if (g.op(n) != OpKind::Quantize && g.op(n) != OpKind::Dequantize) return false;
  const auto is_one = [&](ValueId v) { return num_elements(g.type(v)) == 1; };
  const ValueId zero = g.operand(n, 2);
  return g.attrs<QuantAttrs>(n).block == 0 && is_one(g.operand(n, 1)) && (!zero.valid() || is_one(zero));
}

ValueId rounded_alike(Builder& b, NodeId n, ValueId v) {
  const Graph& g = b.graph();
  const auto scalar_of = [&](ValueId number) { return number.valid() ? b.reshape(number, {}) : number; };
  QuantAttrs a = g.attrs<QuantAttrs>(n);
  a.axis = 0;
  return b.create(g.op(n), {v, scalar_of(g.operand(n, 1)), scalar_of(g.operand(n, 2))}, a);
}

bool selects_positions(const Graph& g, NodeId n) {
  if (g.op(n) != OpKind::Resize) return false;
  const auto& a = g.attrs<ResizeAttrs>(n);
  return a.mode == ResizeMode::Nearest && a.coord != CoordMode::TfCropAndResize;
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
