// Tangents of operations that move elements: they move in the same way.
#include "transform/duals.h"
#include "transform/selection.h"

namespace rlxc::transform {
namespace {

bool concat_dual(Dual& d) {
  std::vector<Term> parts;
  for (size_t i = 0; i < d.graph.operands(d.node).size(); ++i) parts.push_back(d.t_or_zeros(i));
  return d.give(concat(parts, d.attrs<AxisAttrs>().axis)), true;
}

bool pad_dual(Dual& d) {
  if (d.moves(1)) return d.give(d.again({d.t_or_zeros(0), d.t(1)})), true;
  return d.give(make(OpKind::Pad, {d.t(0)}, d.attrs<PadAttrs>())), true;
}

bool resize_dual(Dual& d) {
  ResizeAttrs a = d.attrs<ResizeAttrs>();
  a.extrapolation = 0;
  return d.give(make(OpKind::Resize, {d.t(0)}, a)), true;
}

bool topk_dual(Dual& d) {
  return d.give(make(OpKind::GatherElements, {d.t(0), d.out(1)}, AxisAttrs{d.attrs<TopKAttrs>().axis})), true;
}

bool scatter_dual(Dual& d) {
  const ScatterAttrs s = d.attrs<ScatterAttrs>();
  const OpKind op = d.graph.op(d.node);
  const Term x = d.in(0), index = d.in(1);
  if (s.reduction == Reduction::None) return d.give(make(op, {d.t_or_zeros(0), index, d.t_or_zeros(2)}, s)), true;
  const ScatterSlopes slopes = scatter_slopes(op, s, x, index, d.in(2), d.out());
  const Term own = d.moves(0) ? d.t(0) * slopes.data : zeros(d.b, x.dtype(), x.dims());
  if (!d.moves(2)) return d.give(own), true;
  return d.give(make(op, {own, index, d.t(2) * slopes.updates}, ScatterAttrs{s.axis, Reduction::Add})), true;
}

bool unique_dual(Dual& d) {
  const UniqueAttrs u = d.attrs<UniqueAttrs>();
  Term t = d.t(0);
  if (u.flat) t = reshape(t, {d.b.dims().product(t.dims())});
  return d.give(make(OpKind::Gather, {t, d.out(1)}, AxisAttrs{u.flat ? 0 : u.axis})), true;
}

bool det_dual(Dual& d) {
  const Term x = d.in(0), t = d.t(0);
  return d.give(sum(t * cofactors(x), {x.rank() - 2, x.rank() - 1}, false)), d.results[0].valid();
}

bool one_hot_dual(Dual& d) { return d.give(make(OpKind::OneHot, {d.in(0), d.t(1)}, d.attrs<OneHotAttrs>())), true; }

bool range_dual(Dual& d) { return d.give(make(OpKind::Range, {d.t_or_zeros(0), d.t_or_zeros(1)}, d.attrs<DimsAttrs>())), true; }

bool still(Dual&) { return true; }

}  // namespace

std::span<const DualEntry> movement_duals() {
  static constexpr DualEntry kTable[] = {
      {OpKind::Reshape, moves_alike},
      {OpKind::ReshapeTo, moves_alike},
      {OpKind::Transpose, moves_alike},
      {OpKind::Expand, moves_alike},
      {OpKind::Narrow, moves_alike},
      {OpKind::Slice, moves_alike},
      {OpKind::Gather, moves_alike},
      {OpKind::GatherElements, moves_alike},
      {OpKind::GatherNd, moves_alike},
      {OpKind::Reverse, moves_alike},
      {OpKind::Trilu, moves_alike},
      {OpKind::Tile, moves_alike},
      {OpKind::Concat, concat_dual},
      {OpKind::Pad, pad_dual},
      {OpKind::Resize, resize_dual},
      {OpKind::TopK, topk_dual},
      {OpKind::ScatterElements, scatter_dual},
      {OpKind::ScatterNd, scatter_dual},
      {OpKind::OneHot, one_hot_dual},
      {OpKind::Range, range_dual},
      {OpKind::Unique, unique_dual},
      {OpKind::Det, det_dual},
      {OpKind::ArgReduce, still},
  };
  return kTable;
}

}  // namespace rlxc::transform
