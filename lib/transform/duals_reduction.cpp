// Tangents of reductions and norms. Jacobians of norms and of softmax are symmetric: their formulas serve both directions.
#include "transform/duals.h"
#include "transform/nn_gradients.h"
#include "transform/rules.h"

namespace rlxc::transform {
namespace {

bool reduce_dual(Dual& d) {
  const ReduceAttrs r = d.attrs<ReduceAttrs>();
  if (r.op == ReduceOp::Sum || r.op == ReduceOp::Mean) {
    d.give(d.again({d.t(0)}));
    return true;
  }
  const Term x = d.in(0), slope = reduction_slope(r, x, kept(d.out(), x, r.axes));
  d.give(sum(product(d.t(0), slope), r.axes, r.keep_dim));
  return true;
}

bool softmax_dual(Dual& d) {
  const Term y = d.out(), t = d.t(0);
  d.give(y * (t - sum(y * t, {d.attrs<AxisAttrs>().axis})));
  return true;
}
bool log_softmax_dual(Dual& d) {
  const Term t = d.t(0);
  d.give(t - sum(exp(d.out()) * t, {d.attrs<AxisAttrs>().axis}));
  return true;
}

// x is normalised, then times gamma plus beta, which `beside` puts beside x.
template <class Beside>
bool scaled(Dual& d, Term unit, Term moved, Beside beside) {
  Term t = d.has(1) && moved.valid() ? moved * beside(d.in(1)) : moved;
  if (d.moves(1)) t = plus(t, unit * beside(d.t(1)));
  if (d.moves(2)) t = plus(t, beside(d.t(2)));
  d.give(t);
  return true;
}
const auto beside_itself = [](Term v) { return v; };

bool layer_norm_dual(Dual& d) {
  const NormAttrs n = d.attrs<NormAttrs>();
  const auto rows = axes_between(n.axis, d.in(0).rank());
  const Normalised v = normalised(d.in(0), rows, n.eps);
  return scaled(d, v.x, d.moves(0) ? norm_gradient(v, d.t(0), rows) : d.t(0), beside_itself);
}
bool rms_norm_dual(Dual& d) {
  const NormAttrs n = d.attrs<NormAttrs>();
  const auto rows = axes_between(n.axis, d.in(0).rank());
  const Term r = rms_inverse(d.in(0), rows, n.eps);
  return scaled(d, d.in(0) * r, d.moves(0) ? rms_gradient(d.in(0), r, d.t(0), rows) : d.t(0), beside_itself);
}
bool group_norm_dual(Dual& d) {
  const GroupNormAttrs n = d.attrs<GroupNormAttrs>();
  const Term x = d.in(0);
  const std::vector<Dim> groups = grouped(x, n.groups);
  const Normalised v = normalised(reshape(x, groups), {2}, n.eps);
  const Term moved = d.moves(0) ? reshape(norm_gradient(v, reshape(d.t(0), groups), {2}), x.dims()) : d.t(0);
  return scaled(d, reshape(v.x, x.dims()), moved, [&](Term p) { return along(p, 1, x); });
}
bool batch_norm_dual(Dual& d) {  // x, gamma, beta, mean, var
  const NormAttrs n = d.attrs<NormAttrs>();
  const Term x = d.in(0);
  const auto beside = [&](Term p) { return along(p, n.axis, x); };
  const Term gamma = beside(d.in(1)), centred = x - beside(d.in(3)), r = rsqrt(beside(d.in(4)) + n.eps);
  Term t = minus(d.t(0), d.moves(3) ? beside(d.t(3)) : d.t(3)) * gamma * r;
  if (d.moves(1)) t = plus(t, centred * r * beside(d.t(1)));
  if (d.moves(2)) t = plus(t, beside(d.t(2)));
  if (d.moves(4)) t = plus(t, gamma * centred * (r * square(r)) * -0.5 * beside(d.t(4)));
  d.give(t);
  return true;
}

}  // namespace

std::span<const DualEntry> reduction_duals() {
  static constexpr DualEntry kTable[] = {
      {OpKind::Reduce, reduce_dual},
      {OpKind::Softmax, softmax_dual},
      {OpKind::LogSoftmax, log_softmax_dual},
      {OpKind::LayerNorm, layer_norm_dual},
      {OpKind::RmsNorm, rms_norm_dual},
      {OpKind::GroupNorm, group_norm_dual},
      {OpKind::BatchNormInference, batch_norm_dual},
  };
  return kTable;
}

}  // namespace rlxc::transform
