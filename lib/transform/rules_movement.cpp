// Gradients of operations that move elements: what moved goes back, and adds up where one element went to several places.
#include "transform/nn_gradients.h"
#include "transform/rules.h"
#include "transform/selection.h"

namespace rlxc::transform {
namespace {

bool back_to_shape(Adjoint& a) { return a.give(0, reshape(a.g(), a.in(0).dims())), true; }

bool transpose_back(Adjoint& a) { return a.give(0, transpose(a.g(), inverse_permutation(a.attrs<PermAttrs>().perm))), true; }

bool broadcast_back(Adjoint& a) { return a.give(0, a.g()), true; }

// The same movement of the gradient: flips and triangles undo or repeat themselves.
bool same_again(Adjoint& a) {
  std::vector<ValueId> operands(a.graph.operands(a.node).begin(), a.graph.operands(a.node).end());
  operands[0] = a.g().v;
  const OpKind op = a.graph.op(a.node);
  return a.give(0, a.g().with(a.b.create(op, operands, a.b.module().attrs[a.graph.attr_id(a.node)]))), true;
}

// Whatever the operation does: it moves the positions of the elements in the same way, and they say where the gradient goes.
bool by_positions(Adjoint& a) {
  if (!a.wants(0)) return true;
  const Term x = a.in(0), positions = reshape(count_up(a.b, a.b.dims().product(x.dims())), x.dims());
  std::vector<ValueId> operands(a.graph.operands(a.node).begin(), a.graph.operands(a.node).end());
  operands[0] = positions.v;
  const Attrs attrs = a.b.module().attrs[a.graph.attr_id(a.node)];
  const Term moved = x.with(a.b.create(a.graph.op(a.node), operands, attrs));
  return a.give(0, added_at(x.dims(), moved, a.g())), moved.valid();
}

Term padded(Term x, std::vector<Dim> before, std::vector<Dim> after) {
  return make(OpKind::Pad, {x}, PadAttrs{std::move(before), std::move(after), PadMode::Constant});
}

bool narrow_back(Adjoint& a) {
  const auto& n = a.attrs<NarrowAttrs>();
  const std::vector<Dim> d = a.in(0).dims();
  std::vector<Dim> before(d.size()), after(d.size());
  const auto axis = static_cast<size_t>(n.axis);
  before[axis] = n.start;
  after[axis] = a.b.dims().sub(d[axis], a.b.dims().add(n.start, n.len));
  return a.give(0, padded(a.g(), std::move(before), std::move(after))), true;
}

bool pad_back(Adjoint& a) {
  const PadAttrs p = a.attrs<PadAttrs>();
  if (p.mode != PadMode::Constant) return by_positions(a);
  std::vector<Dim> before, after;
  for (Dim d : p.before) before.push_back(a.b.dims().sub(Dim(0), d));
  for (Dim d : p.after) after.push_back(a.b.dims().sub(Dim(0), d));
  const Term own = padded(a.g(), before, after);
  a.give(0, own);
  if (a.wants(1)) {
    std::vector<int64_t> all = all_but(-1, own.rank());
    a.give(1, reshape(sum(a.g(), all) - sum(own, all), a.in(1).dims()));
  }
  return true;
}

bool concat_back(Adjoint& a) {
  const int64_t axis = a.attrs<AxisAttrs>().axis;
  Dim at(0);
  for (size_t i = 0; i < a.graph.operands(a.node).size(); ++i) {
    const Dim len = a.in(i).dims()[static_cast<size_t>(axis)];
    if (a.wants(i)) a.give(i, narrow(a.g(), axis, at, len));
    at = a.b.dims().add(at, len);
  }
  return true;
}

bool tile_back(Adjoint& a) {
  const auto& repeats = a.attrs<DimsAttrs>().dims;
  const std::vector<Dim> d = a.in(0).dims();
  std::vector<Dim> split;
  std::vector<int64_t> axes;
  for (size_t i = 0; i < d.size(); ++i) {
    axes.push_back(static_cast<int64_t>(split.size()));
    split.push_back(repeats[i]), split.push_back(d[i]);
  }
  return a.give(0, sum(reshape(a.g(), split), axes, false)), true;
}

bool scatter_back(Adjoint& a) {
  const ScatterAttrs s = a.attrs<ScatterAttrs>();
  const OpKind op = a.graph.op(a.node);
  const ScatterSlopes slopes = scatter_slopes(op, s, a.in(0), a.in(1), a.in(2), a.out());
  if (a.wants(0)) a.give(0, s.reduction == Reduction::Add ? a.g() : a.g() * slopes.data);
  if (a.wants(2)) a.give(2, gathered(op, s, a.g(), a.in(1)) * slopes.updates);
  return true;
}

// Values are [off, on].
bool one_hot_back(Adjoint& a) {
  if (!a.wants(1)) return true;
  const Term g = a.g(), ends = concat({reshape(g.number(0), {Dim(1)}), reshape(g.number(1), {Dim(1)})}, 0);
  const Term hot = make(OpKind::OneHot, {a.in(0), ends}, a.attrs<OneHotAttrs>());
  const std::vector<int64_t> all = all_but(-1, g.rank());
  const Term on = reshape(sum(g * hot, all), {Dim(1)}), off = reshape(sum(g, all), {Dim(1)}) - on;
  return a.give(1, reshape(concat({off, on}, 0), a.in(1).dims())), true;
}

bool range_back(Adjoint& a) {
  const Term g = a.g(), at = count_up(a.b, g.dims()[0]);
  a.give(0, reshape(sum(g, {0}), a.in(0).dims()));
  return a.give(1, reshape(sum(g * g.with(a.b.cast(at.v, g.dtype())), {0}), a.in(1).dims())), true;
}

// Values come from their first places.
bool unique_back(Adjoint& a) {
  const UniqueAttrs u = a.attrs<UniqueAttrs>();
  if (!a.has_gradient(0)) return true;
  const Term x = a.in(0);
  Term positions = a.out(1);
  if (!u.flat)
    positions =
        make(OpKind::Gather, {reshape(count_up(a.b, a.b.dims().product(x.dims())), x.dims()), positions}, AxisAttrs{u.axis});
  return a.give(0, added_at(x.dims(), positions, a.g())), true;
}

bool topk_back(Adjoint& a) {
  const Term x = a.in(0);
  return a.give(0, make(OpKind::ScatterElements, {zeros(a.b, x.dtype(), x.dims()), a.out(1), a.g()},
                        ScatterAttrs{a.attrs<TopKAttrs>().axis, Reduction::Add})),
         true;
}

bool nearest_back(Adjoint& a) {
  const auto& r = a.attrs<ResizeAttrs>();
  const bool is_static = a.graph.type(a.in(0).v).is_static() && a.graph.type(a.out().v).is_static();
  if (a.expand && is_static) return false;  // its gathers are cheaper than an image of positions
  return r.mode == ResizeMode::Nearest && r.coord != CoordMode::TfCropAndResize && by_positions(a);
}

bool nothing(Adjoint&) { return true; }

}  // namespace

std::span<const RuleEntry> movement_rules() {
  static constexpr RuleEntry kTable[] = {
      {OpKind::Reshape, back_to_shape},
      {OpKind::ReshapeTo, back_to_shape},
      {OpKind::Transpose, transpose_back},
      {OpKind::Expand, broadcast_back},
      {OpKind::Narrow, narrow_back},
      {OpKind::Slice, by_positions},
      {OpKind::Concat, concat_back},
      {OpKind::Gather, by_positions},
      {OpKind::GatherElements, by_positions},
      {OpKind::GatherNd, by_positions},
      {OpKind::ScatterElements, scatter_back},
      {OpKind::ScatterNd, scatter_back},
      {OpKind::OneHot, one_hot_back},
      {OpKind::Range, range_back},
      {OpKind::Unique, unique_back},
      {OpKind::Pad, pad_back},
      {OpKind::Reverse, same_again},
      {OpKind::Trilu, same_again},
      {OpKind::Tile, tile_back},
      {OpKind::Resize, nearest_back},
      {OpKind::TopK, topk_back},
      // Of integers and truth values, or constant in steps.
      {OpKind::ArgReduce, nothing},
  };
  return kTable;
}

}  // namespace rlxc::transform
