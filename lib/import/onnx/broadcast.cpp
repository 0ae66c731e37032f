#include "import/onnx/broadcast.h"

#include <algorithm>

#include "import/onnx/attention.h"

namespace rlxc::onnx_import {
namespace {

// Dims with a common symbol vary together: they must be equal.
bool share_symbols(DimTable& dims, Dim a, Dim b) {
  const auto x = dims.symbols_of(a), y = dims.symbols_of(b);
  return std::ranges::any_of(x, [&](const std::string& s) { return std::ranges::binary_search(y, s); });
}

}  // namespace

std::optional<Dim> open_broadcast(Op& op, Dim a, Dim b) {
  DimTable& dims = op.dims();
  if (a == Dim(1) || b == Dim(1) || dims.equal(a, b)) return std::nullopt;
  if (a == Dim(0) || b == Dim(0)) {  // the other is 1, or a data-dependent 0
    const Dim other = a == Dim(0) ? b : a;
    return other.is_static() || dims.at_least(other, 2) ? std::nullopt : std::optional(Dim(0));
  }
  const bool a_is_result = dims.at_least(a, 2), b_is_result = dims.at_least(b, 2);
  if (a_is_result && b_is_result) return std::nullopt;
  const Dim larger = dims.max(a, b);
  if (larger != a && larger != b && !dims.known_ne(a, b) && share_symbols(dims, a, b)) return std::nullopt;
  return a_is_result ? a : b_is_result ? b : larger;
}

// For a = min, b = max: (a-1) * (b-a) is 0 for exactly these sizes, unless one is 0.
void assume_broadcast(DimTable& dims, Dim a, Dim b) {
  if (a == Dim(0) || b == Dim(0)) {
    const Dim other = a == Dim(0) ? b : a;
    dims.assume_equal(dims.mul(other, dims.sub(other, Dim(1))), Dim(0));
    return;
  }
  const Dim low = dims.min(a, b), high = dims.max(a, b);
  dims.assume_equal(dims.mul(dims.sub(low, Dim(1)), dims.sub(high, low)), Dim(0));
}

ValueId repeat_if_one(Op& op, ValueId x, int64_t axis, Dim to) {
  if (!x.valid()) return {};
  const Dim have = op.graph().dims(x)[static_cast<size_t>(axis)];
  const ValueId last = op.b.sub(size_of(op, have), op.b.scalar(DType::I64, 1));
  return op.b.create(OpKind::Gather, {x, op.b.create(OpKind::Min, {positions(op, to), last})}, AxisAttrs{axis});
}

std::vector<ValueId> broadcast_operands(Op& op, std::vector<ValueId> operands, size_t own) {
  size_t rank = 0;
  for (ValueId v : operands)
    if (v.valid()) rank = std::max(rank, op.graph().dims(v).size());
  for (size_t back = own + 1; back <= rank; ++back) {  // axes from the last one on
    const auto size = [&](ValueId v) {
      const auto d = v.valid() ? op.graph().dims(v) : std::span<const Dim>();
      return back <= d.size() ? d[d.size() - back] : Dim(1);
    };
    Dim result(1);
    for (ValueId v : operands) {
      const Dim d = size(v);
      if (const auto open = open_broadcast(op, result, d)) {
        assume_broadcast(op.dims(), result, d);
        result = *open;
      } else if (result == Dim(1)) {
        result = d;
      }
    }
    for (ValueId& v : operands) {
      const Dim d = size(v);
      if (d == result || !open_broadcast(op, d, result)) continue;
      v = repeat_if_one(op, v, static_cast<int64_t>(op.graph().dims(v).size() - back), result);
    }
  }
  return operands;
}

ValueId broadcast(Op& op, OpKind kind, std::vector<ValueId> operands) {
  return op.b.create(kind, broadcast_operands(op, std::move(operands)), default_attrs(kind));
}

}  // namespace rlxc::onnx_import
