#include "transform/nn_gradients.h"

#include <array>
#include <numeric>

namespace rlxc::transform {

Normalised normalised(Term x, const std::vector<int64_t>& rows, double eps) {
  const Term centred = x - mean(x, rows), r = rsqrt(mean(square(centred), rows) + eps);
  return {centred * r, r};
}
Term norm_gradient(const Normalised& n, Term g, const std::vector<int64_t>& rows) {
  return (g - mean(g, rows) - n.x * mean(g * n.x, rows)) * n.r;
}

Term rms_inverse(Term x, const std::vector<int64_t>& rows, double eps) { return rsqrt(mean(square(x), rows) + eps); }
Term rms_gradient(Term x, Term r, Term g, const std::vector<int64_t>& rows) {
  const Term unit = x * r;
  return (g - unit * mean(g * unit, rows)) * r;
}

std::vector<Dim> grouped(Term x, int64_t groups) {
  const std::vector<Dim> d = x.dims();
  DimTable& t = x.b->dims();
  return {d[0], Dim(groups), t.floor_div(t.product(std::span(d).subspan(1)), Dim(groups))};
}

std::vector<int64_t> all_but(int64_t axis, int rank) {
  std::vector<int64_t> axes;
  for (int64_t i = 0; i < rank; ++i)
    if (i != axis) axes.push_back(i);
  return axes;
}

Term conv_input_gradient(Term dy, Term w, ConvAttrs a, const std::vector<Dim>& dx) {
  const std::vector<Dim> out = dy.dims(), kernel = w.dims();
  DimTable& t = dy.b->dims();
  if (out.size() != dx.size() || kernel.size() != dx.size() || a.strides.size() + 2 != dx.size()) return dy.with({});
  a.output_padding.assign(a.strides.size(), 0);
  for (size_t i = 0; i < a.strides.size(); ++i) {
    const auto o = t.constant_value(out[i + 2]), k = t.constant_value(kernel[i + 2]), want = t.constant_value(dx[i + 2]);
    if (!o || !k || !want) return dy.with({});
    a.output_padding[i] = *want - ((*o - 1) * a.strides[i] - a.pads_begin[i] - a.pads_end[i] + a.dilations[i] * (*k - 1) + 1);
    if (a.output_padding[i] < 0) return dy.with({});
  }
  return make(OpKind::ConvTranspose, {dy, w}, std::move(a));
}

// The batch takes the place of the channels, dy that of the kernel.
Term conv_weight_gradient(Term x, Term dy, ConvAttrs a, const std::vector<Dim>& dw) {
  const std::vector<Dim> d = x.dims();
  DimTable& t = x.b->dims();
  if (d.size() != dw.size() || static_cast<size_t>(dy.rank()) != dw.size() || d.size() < 3 || a.groups < 1) return x.with({});
  const Dim groups(a.groups), each = t.floor_div(d[1], groups);
  std::vector<Dim> split{d[0], groups, each}, joined{each, t.mul(groups, d[0])};
  std::vector<int64_t> order{2, 1, 0}, swap{1, 0};
  for (size_t i = 2; i < d.size(); ++i) {
    split.push_back(d[i]), joined.push_back(d[i]);
    order.push_back(static_cast<int64_t>(i) + 1), swap.push_back(static_cast<int64_t>(i));
  }
  std::swap(a.strides, a.dilations);
  Term w = make(OpKind::Conv, {reshape(transpose(reshape(x, split), order), joined), transpose(dy, swap)}, std::move(a));
  for (size_t i = 2; i < dw.size() && w.valid(); ++i)
    if (!t.equal(w.dims()[i], dw[i])) w = narrow(w, static_cast<int64_t>(i), Dim(0), dw[i]);
  return transpose(w, swap);
}

Term max_pool_gradient(Term x, Term dy, PoolAttrs a) {
  if (!x.valid() || !dy.valid()) return x.with({});
  const NodeId made = x.b->create_node(OpKind::MaxPoolIndices, std::array{x.v}, std::move(a));
  return made.valid() ? added_at(x.dims(), x.with(x.b->graph().result(made, 1)), dy) : x.with({});
}

Term added_at(std::vector<Dim> dims, Term positions, Term updates) {
  if (!positions.valid() || !updates.valid()) return positions.with({});
  Builder& b = *updates.b;
  const Dim all = b.dims().product(dims), count = b.dims().product(updates.dims());
  const Term into = zeros(b, updates.dtype(), {all});
  return reshape(make(OpKind::ScatterElements, {into, reshape(positions, {count}), reshape(updates, {count})},
                      ScatterAttrs{0, Reduction::Add}),
                 std::move(dims));
}

}  // namespace rlxc::transform
