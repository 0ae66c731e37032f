// Gradients of reductions, running sums and norms. Equal largest elements share the gradient of a maximum evenly.
#include <algorithm>

#include "transform/nn_gradients.h"
#include "transform/rules.h"
#include "transform/selection.h"

namespace rlxc::transform {
namespace {

// How many elements the axes have, as a number beside x.
Term count_of(Term x, const std::vector<int64_t>& axes) {
  const std::vector<Dim> d = x.dims();
  std::vector<Dim> reduced;
  for (int64_t axis : axes) reduced.push_back(d[static_cast<size_t>(axis)]);
  Builder& b = *x.b;
  const Dim n = b.dims().product(reduced);
  if (n.is_static()) return x.number(static_cast<double>(n.size()));
  return x.with(b.cast(b.create(OpKind::DimValue, {}, DimsAttrs{{n}, true}), x.dtype()));
}

// The products of all the other elements along the axes: those before times those after.
Term product_of_others(Term x, const std::vector<int64_t>& axes) {
  std::vector<int64_t> order;
  for (int64_t i = 0; i < x.rank(); ++i)
    if (std::ranges::find(axes, i) == axes.end()) order.push_back(i);
  const auto outer = static_cast<int64_t>(order.size());
  order.insert(order.end(), axes.begin(), axes.end());
  const Term front = transpose(x, order);
  const std::vector<Dim> d = front.dims();
  std::vector<Dim> flat(d.begin(), d.begin() + outer);
  flat.push_back(x.b->dims().product(std::span(d).subspan(static_cast<size_t>(outer))));
  const Term rows = reshape(front, flat);
  const Term before = make(OpKind::Cumprod, {rows}, CumAttrs{outer, true, false}),
             after = make(OpKind::Cumprod, {rows}, CumAttrs{outer, true, true});
  return transpose(reshape(before * after, d), inverse_permutation(order));
}

Term evenly(Term chosen, DType t, const std::vector<int64_t>& axes) {
  const Term ones = chosen.as(t);
  return ones / sum(ones, axes);
}

}  // namespace

// A result as broadcast over the axes that were reduced away.
Term kept(Term reduced, Term x, const std::vector<int64_t>& axes) {
  std::vector<Dim> d = x.dims();
  for (int64_t axis : axes) d[static_cast<size_t>(axis)] = Dim(1);
  return reshape(reduced, d);
}

Term reduction_slope(const ReduceAttrs& r, Term x, Term y) {
  switch (r.op) {
    case ReduceOp::Sum: return x.number(1);
    case ReduceOp::Mean: return recip(count_of(x, r.axes));
    case ReduceOp::Max:
    case ReduceOp::Min: return evenly(equal(x, y), x.dtype(), r.axes);
    case ReduceOp::Prod: return product_of_others(x, r.axes);
    case ReduceOp::L1: return sign(x);
    case ReduceOp::L2: return select(equal(y, 0.0), 0.0, x / select(equal(y, 0.0), 1.0, y));
    case ReduceOp::LogSum: return exp(-y);
    case ReduceOp::LogSumExp: return exp(x - y);
    case ReduceOp::SumSquare: return x * 2;
  }
  return x.with({});
}

namespace {

bool reduce_back(Adjoint& a) {
  const ReduceAttrs r = a.attrs<ReduceAttrs>();
  const Term x = a.in(0), g = kept(a.g(), x, r.axes);
  if (r.op == ReduceOp::Sum) {
    a.give(0, expand(g, x.dims()));
    return true;
  }
  a.give(0, expand(product(g, reduction_slope(r, x, kept(a.out(), x, r.axes))), x.dims()));
  return true;
}

bool cumsum_back(Adjoint& a) {
  CumAttrs c = a.attrs<CumAttrs>();
  c.reverse = !c.reverse;
  a.give(0, make(OpKind::Cumsum, {a.g()}, c));
  return true;
}

bool det_back(Adjoint& a) {
  const Term x = a.in(0), slopes = cofactors(x);
  std::vector<Dim> d = a.g().dims();
  d.insert(d.end(), {Dim(1), Dim(1)});
  a.give(0, reshape(a.g(), d) * slopes);
  return slopes.valid();
}

bool fft_back(Adjoint& a) {
  a.give(0, fft_transposed(a.attrs<FftAttrs>(), a.g(), a.in(0).dims()));
  return true;
}

bool softmax_back(Adjoint& a) {
  const Term y = a.out(), g = a.g();
  a.give(0, y * (g - sum(g * y, {a.attrs<AxisAttrs>().axis})));
  return true;
}
bool log_softmax_back(Adjoint& a) {
  a.give(0, a.g() - exp(a.out()) * sum(a.g(), {a.attrs<AxisAttrs>().axis}));
  return true;
}

// gamma and beta have the sizes of the axes that are normalised, so they add up as broadcast operands do.
bool layer_norm_back(Adjoint& a) {
  const NormAttrs n = a.attrs<NormAttrs>();
  const auto rows = axes_between(n.axis, a.in(0).rank());
  const Normalised v = normalised(a.in(0), rows, n.eps);
  if (a.wants(0)) a.give(0, norm_gradient(v, a.has(1) ? a.g() * a.in(1) : a.g(), rows));
  if (a.wants(1)) a.give(1, a.g() * v.x);
  a.give(2, a.g());
  return true;
}
bool rms_norm_back(Adjoint& a) {
  const NormAttrs n = a.attrs<NormAttrs>();
  const auto rows = axes_between(n.axis, a.in(0).rank());
  const Term r = rms_inverse(a.in(0), rows, n.eps);
  if (a.wants(0)) a.give(0, rms_gradient(a.in(0), r, a.has(1) ? a.g() * a.in(1) : a.g(), rows));
  if (a.wants(1)) a.give(1, a.g() * (a.in(0) * r));
  a.give(2, a.g());
  return true;
}

bool group_norm_back(Adjoint& a) {
  const GroupNormAttrs n = a.attrs<GroupNormAttrs>();
  const Term x = a.in(0);
  const std::vector<Dim> groups = grouped(x, n.groups);
  const Normalised v = normalised(reshape(x, groups), {2}, n.eps);
  const Term g = a.has(1) ? a.g() * along(a.in(1), 1, x) : a.g();
  if (a.wants(0)) a.give(0, reshape(norm_gradient(v, reshape(g, groups), {2}), x.dims()));
  if (a.wants(1)) a.give(1, sum(a.g() * reshape(v.x, x.dims()), all_but(1, x.rank()), false));
  if (a.wants(2)) a.give(2, sum(a.g(), all_but(1, x.rank()), false));
  return true;
}

bool batch_norm_back(Adjoint& a) {  // x, gamma, beta, mean, var
  const NormAttrs n = a.attrs<NormAttrs>();
  const Term x = a.in(0), g = a.g(), gamma = along(a.in(1), n.axis, x), centred = x - along(a.in(3), n.axis, x),
             r = rsqrt(along(a.in(4), n.axis, x) + n.eps);
  const auto give = [&](size_t i, Term part) {
    if (a.wants(i)) a.give(i, i == 0 ? part : sum(part, all_but(n.axis, x.rank()), false));
  };
  give(0, g * gamma * r);
  give(1, g * centred * r);
  give(2, g);
  give(3, -(g * gamma * r));
  give(4, g * gamma * centred * (r * square(r)) * -0.5);
  return true;
}

}  // namespace

std::span<const RuleEntry> reduction_rules() {
  static constexpr RuleEntry kTable[] = {
      {OpKind::Reduce, reduce_back},
      {OpKind::Cumsum, cumsum_back},
      {OpKind::Det, det_back},
      {OpKind::Fft, fft_back},
      {OpKind::Softmax, softmax_back},
      {OpKind::LogSoftmax, log_softmax_back},
      {OpKind::LayerNorm, layer_norm_back},
      {OpKind::RmsNorm, rms_norm_back},
      {OpKind::GroupNorm, group_norm_back},
      {OpKind::BatchNormInference, batch_norm_back},
  };
  return kTable;
}

}  // namespace rlxc::transform
