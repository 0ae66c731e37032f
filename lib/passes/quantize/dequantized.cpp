#include "passes/quantize/dequantized.h"

#include <algorithm>
#include <limits>

#include "passes/match.h"
#include "passes/quantize/roundings.h"

namespace rlxc {

using namespace match;

ValueId unless_zero(const Graph& g, ValueId v) { return is_absent_or_zero(g, v) ? ValueId() : v; }

std::optional<Dequantized> dequantized(const Graph& g, ValueId v, bool words) {
  const NodeId n = defining_op(g, v, OpKind::Dequantize);
  if (!n.valid()) return std::nullopt;
  const auto& a = g.attrs<QuantAttrs>(n);
  Dequantized d{n, g.operand(n, 0), g.operand(n, 1), unless_zero(g, g.operand(n, 2)), a.axis, false};
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

std::optional<CodeLimits> clamped_codes(const Graph& g, NodeId n, const Dequantized& d) {
  double low = 0, high = std::numeric_limits<double>::infinity();
  if (g.op(n) == OpKind::Clamp) {
    low = g.attrs<ClampAttrs>(n).min;
    high = g.attrs<ClampAttrs>(n).max;
  } else if (g.op(n) != OpKind::Relu) {
    return std::nullopt;
  }
  const DType t = g.dtype(d.q);
  const auto scale = scalar(g, d.scale), zero = d.zero.valid() ? scalar(g, d.zero) : std::optional(0.0);
  if (!d.per_tensor || !is_int8(t) || g.dtype(g.result(n)) != DType::F32 || !scale || !zero || !(*scale > 0) || !(low <= high))
    return std::nullopt;
  const auto value = [&](int64_t code) {
    return static_cast<float>(static_cast<double>(code) - *zero) * static_cast<float>(*scale);
  };
  const int64_t first = t == DType::I8 ? -128 : 0, last = first + 255;
  const auto low32 = static_cast<float>(low), high32 = static_cast<float>(high);
  CodeLimits codes{first, last};
  while (codes.least < last && value(codes.least) < low32) ++codes.least;
  while (codes.most > first && value(codes.most) > high32) --codes.most;
  const bool fits_low = value(codes.least) == low32 || (codes.least == first && value(first) > low32);
  const bool fits_high = value(codes.most) == high32 || (codes.most == last && value(last) < high32);
  return fits_low && fits_high ? std::optional(codes) : std::nullopt;
}

bool joins_codes(const Graph& g, NodeId n, const std::function<std::optional<Dequantized>(ValueId)>& of) {
  if (g.op(n) != OpKind::Concat) return false;
  std::optional<Dequantized> first;
  return std::ranges::all_of(g.operands(n), [&](ValueId v) {
    const auto d = of(v);
    if (!d || !d->per_tensor) return false;
    if (!first) first = d;
    return g.dtype(d->q) == g.dtype(first->q) && same_number(g, d->scale, first->scale) && same_number(g, d->zero, first->zero);
  });
}

std::optional<Dequantized> dequantized_late(const Graph& g, ValueId v, bool words) {
  constexpr int kDeepest = 8;
  int left = 64;  // values to look at
  const std::function<std::optional<Dequantized>(ValueId, int)> of = [&](ValueId value, int depth) -> std::optional<Dequantized> {
    if (const auto d = dequantized(g, value, words); d || depth == kDeepest || --left < 0) return d;
    const NodeId n = g.def(value);
    const auto next = [&](ValueId operand) { return of(operand, depth + 1); };
    if (moves_codes(g, n)) return next(g.operand(n, 0));
    if (g.op(n) != OpKind::Concat && g.op(n) != OpKind::Relu && g.op(n) != OpKind::Clamp) return std::nullopt;
    const auto d = next(g.operand(n, 0));
    return d && (clamped_codes(g, n, *d) || joins_codes(g, n, next)) ? d : std::nullopt;
  };
  return of(v, 0);
}

}  // namespace rlxc
