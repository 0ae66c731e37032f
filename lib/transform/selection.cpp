#include "transform/selection.h"

#include "transform/nn_gradients.h"

namespace rlxc::transform {
Term gathered(OpKind scatter, const ScatterAttrs& s, Term x, Term index) {
  return scatter == OpKind::ScatterElements ? make(OpKind::GatherElements, {x, index}, AxisAttrs{s.axis})
                                            : make(OpKind::GatherNd, {x, index});
}

ScatterSlopes scatter_slopes(OpKind op, const ScatterAttrs& s, Term x, Term index, Term u, Term y) {
  const auto scattered = [&](Term into, Term updates, Reduction how) {
    return make(op, {into, index, updates}, ScatterAttrs{s.axis, how});
  };
  const Term ones = expand(x.number(1), x.dims()), none = zeros(*x.b, x.dtype(), x.dims()), own = expand(u.number(1), u.dims());
  switch (s.reduction) {
    case Reduction::None: return {scattered(ones, own * 0, Reduction::None), own};
    case Reduction::Add: return {ones, own};
    case Reduction::Mul: {
      // The product of the others, by division. Beside one other zero it is 0, but moves with that zero.
      const Term is_zero = equal(u, 0.0), rest = select(is_zero, 1.0, u), zero = select(is_zero, u, 0.0);
      const auto beside = [&](Term updates) {  // the sum of the others
        return gathered(op, s, scattered(none, updates, Reduction::Add), index) - updates;
      };
      const Term product = gathered(op, s, scattered(x, rest, Reduction::Mul), index) / rest;
      const Term zeros_beside = beside(is_zero.as(x.dtype()));
      return {scattered(ones, u, Reduction::Mul),
              select(equal(zeros_beside, 0.0), product, select(equal(zeros_beside, 1.0), product * beside(zero), 0.0))};
    }
    case Reduction::Max:
    case Reduction::Min: {
      const Term first = equal(x, y).as(x.dtype()), second = equal(u, gathered(op, s, y, index)).as(x.dtype());
      const Term count = scattered(first, second, Reduction::Add);
      return {first / count, second / gathered(op, s, count, index)};
    }
  }
  return {x.with({}), x.with({})};
}

Term cofactors(Term x) {
  constexpr int64_t kMost = 16;
  const std::vector<Dim> d = x.dims();
  const auto size = x.b->dims().constant_value(d.back());
  if (!size || *size > kMost) return x.with({});
  const int64_t n = *size, row = x.rank() - 2;
  if (n == 1) return expand(x.number(1), d);
  // Rows, and then columns, with each one left out: [.., n, n-1, n] and [.., n, n-1, n, n-1].
  std::vector<int64_t> others, signs;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t k = 0; k < n; ++k) {
      if (k != i) others.push_back(k);
      signs.push_back((i + k) % 2 ? -1 : 1);
    }
  const Term index{x.b, x.b->constant(make_data(DType::I64, {n, n - 1}, others))};
  const Term rows = make(OpKind::Gather, {x, index}, AxisAttrs{row}),
             all = make(OpKind::Gather, {rows, index}, AxisAttrs{row + 2});
  std::vector<int64_t> order = axes_between(0, row);
  for (int64_t axis : {row, row + 2, row + 1, row + 3}) order.push_back(axis);
  const Term sign{x.b, x.b->cast(x.b->constant(make_data(DType::I64, {n, n}, signs)), x.dtype())};
  return make(OpKind::Det, {transpose(all, order)}) * sign;
}

Term fft_transposed(const FftAttrs& a, Term dy, const std::vector<Dim>& dx) {
  if (!dy.valid()) return dy;
  DimTable& t = dy.b->dims();
  const auto k = static_cast<size_t>(a.axis);
  const Dim n = a.length != Dim(0) ? a.length : dx[k];
  // Of the sizes, with zeros behind.
  const auto fitted = [&](Term v, Dim want) {
    const Dim have = v.valid() ? v.dims()[k] : want;
    if (t.equal(have, want)) return v;
    PadAttrs p{std::vector<Dim>(v.dims().size()), std::vector<Dim>(v.dims().size()), PadMode::Constant};
    p.after[k] = t.sub(want, have);
    return make(OpKind::Pad, {v}, p);
  };
  if (a.onesided && a.inverse) {  // the upper half was that of the lower one
    FftAttrs back = a;
    back.inverse = false;
    back.length = n;
    const Term half = make(OpKind::Fft, {dy}, back);
    const Dim count = t.add(t.floor_div(n, Dim(2)), Dim(1));
    const Term at = count_up(*dy.b, count),
               last = at.with(dy.b->create(OpKind::DimValue, {}, DimsAttrs{{t.sub(t.ceil_div(n, Dim(2)), Dim(1))}, true}));
    const Term twice = select(both(at >= 1.0, at <= last), dy.number(2), dy.number(1));
    std::vector<Dim> beside(dx.size(), Dim(1));
    beside[k] = count;
    return fitted(half * reshape(twice, beside), dx[k]);
  }
  FftAttrs back = a;
  back.inverse = !a.inverse;
  back.onesided = false;
  back.length = n;
  const Term whole = make(OpKind::Fft, {fitted(dy, n)}, back);
  const auto last = static_cast<int64_t>(dx.size()) - 1;
  return fitted(t.equal(dx.back(), Dim(1)) ? narrow(whole, last, Dim(0), Dim(1)) : whole, dx[k]);
}

}  // namespace rlxc::transform
