#include "passes/quantise/dequantised.h"

#include "passes/match.h"
#include "passes/quantise/roundings.h"

namespace rlxc {

using namespace match;

ValueId unless_zero(const Graph& g, ValueId v) { return is_absent_or_zero(g, v) ? ValueId() : v; }

std::optional<Dequantised> dequantised(const Graph& g, ValueId v, bool words) {
  const NodeId n = defining_op(g, v, OpKind::Dequantize);
  if (!n.valid()) return std::nullopt;
  const auto& a = g.attrs<QuantAttrs>(n);
  Dequantised d{n, g.operand(n, 0), g.operand(n, 1), unless_zero(g, g.operand(n, 2)), a.axis, false};
  const DType t = g.dtype(d.q);
  const bool fits = is_int8(t) || (words && (t == DType::I16 || t == DType::U16));
  if (a.block != 0 || !fits || (d.zero.valid() && !same_dims(g, d.scale, d.zero))) return std::nullopt;
  d.per_tensor = num_elements(g.type(d.scale)) == 1;
  return d;
}

bool moves_codes(const Graph& g, NodeId n) {
  switch (g.op(n)) {
    case OpKind::Transpose:
    case OpKind::Reshape:
    case OpKind::Narrow:
    case OpKind::Slice:
    case OpKind::Gather:
    case OpKind::Expand: return true;
    default: return selects_positions(g, n);
  }
}

}  // namespace rlxc
