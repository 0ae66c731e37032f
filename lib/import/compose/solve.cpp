#include "import/compose/solve.h"

#include <array>

#include "import/compose/repeat.h"

namespace rlxc::compose {
namespace {

ValueId range(Builder& b, Dim n) {
  return b.create(OpKind::Range, {b.scalar(DType::I64, 0), b.scalar(DType::I64, 1)}, DimsAttrs{{n}, false});
}

// One elimination step on the rows [a | b] [batch, n, width]: column i becomes a unit vector.
ValueId eliminate(Builder& b, ValueId m, ValueId i, Dim batch, Dim n, Dim width) {
  const DType t = b.graph().dtype(m);
  const auto pick = [&](ValueId x, int64_t axis) { return b.create(OpKind::Gather, {x, i}, AxisAttrs{axis}); };
  const ValueId rows = range(b, n), here = b.create(OpKind::Eq, {rows, i});
  const ValueId size =
      b.create(OpKind::Where, {b.create(OpKind::Ge, {rows, i}), b.unary(OpKind::Abs, pick(m, 2)), b.scalar(t, -1)});
  const ValueId pivot_row = b.create(OpKind::ArgReduce, {size}, ArgAttrs{1, true, true, false});  // [batch, 1]
  const ValueId swapped =
      b.create(OpKind::Where, {here, pivot_row, b.create(OpKind::Where, {b.create(OpKind::Eq, {rows, pivot_row}), i, rows})});
  const ValueId order = b.expand(b.reshape(swapped, {batch, n, Dim(1)}), {batch, n, width});
  m = b.create(OpKind::GatherElements, {m, order}, AxisAttrs{1});
  const ValueId row = pick(m, 1), pivot = b.reshape(pick(row, 1), {batch, Dim(1)}), column = pick(m, 2);
  const ValueId unit = b.reshape(b.div(row, pivot), {batch, Dim(1), width});
  const ValueId factor = b.create(OpKind::Where, {here, b.sub(column, b.scalar(t, 1)), column});
  return b.sub(m, b.mul(b.reshape(factor, {batch, n, Dim(1)}), unit));
}

}  // namespace

ValueId identity_matrix(Builder& b, DType t, Dim n) {
  const ValueId i = range(b, n);
  return b.cast(b.create(OpKind::Eq, {b.reshape(i, {n, Dim(1)}), i}), t);
}

ValueId solve(Builder& b, ValueId a, ValueId rhs) {
  if (!a.valid() || !rhs.valid()) return {};
  Graph& g = b.graph();
  const std::vector<Dim> da(g.dims(a).begin(), g.dims(a).end()), db(g.dims(rhs).begin(), g.dims(rhs).end());
  if (da.size() < 2 || db.size() != da.size()) return {};
  const Dim n = da.back(), k = db.back(), width = b.dims().add(n, k),
            batch = b.dims().product(std::span(da).first(da.size() - 2));
  const ValueId start = b.concat(std::array{b.reshape(a, {batch, n, n}), b.reshape(rhs, {batch, n, k})}, 2);
  if (!start.valid()) return {};
  const auto out = repeat(b, "solve", n, {{&b, start}}, [&](transform::Term i, const std::vector<transform::Term>& x) {
    return std::vector{x[0].with(eliminate(*i.b, x[0].v, i.v, batch, n, width))};
  });
  return out.empty() ? ValueId() : b.reshape(b.narrow(out[0].v, 2, n, k), db);
}

}  // namespace rlxc::compose
