// Decompositions of norms. Variances take two passes, because the difference of mean squares cancels.
#include "passes/legalise/decompositions.h"

namespace rlxc::legalise {
namespace {

// (x - mean) / sqrt(mean((x-mean)^2) + eps) over `axes`; mean is 0 for rms.
ValueId normalised(Expansion& e, ValueId x, const std::vector<int64_t>& axes, double eps, bool rms) {
  const ValueId d = rms ? x : e.b.sub(x, e.b.reduce(ReduceOp::Mean, x, axes, true));
  const ValueId variance = e.b.reduce(ReduceOp::Mean, e.b.mul(d, d), axes, true);
  return e.b.mul(d, e.b.unary(OpKind::Rsqrt, e.b.add(variance, e.num(x, eps))));
}

ValueId affine(Expansion& e, ValueId x, ValueId gamma, ValueId beta) {
  if (gamma.valid()) x = e.b.mul(x, e.b.cast(gamma, e.g.dtype(x)));
  if (beta.valid()) x = e.b.add(x, e.b.cast(beta, e.g.dtype(x)));
  return x;
}

std::vector<ValueId> norm(Expansion& e) {
  const auto& a = e.attrs<NormAttrs>();
  const ValueId x = e.wide(e.in(0));
  std::vector<int64_t> axes;
  for (int64_t i = a.axis; i < e.g.rank(x); ++i) axes.push_back(i);
  const ValueId y = normalised(e, x, axes, a.eps, e.g.op(e.n) == OpKind::RmsNorm);
  return {e.b.cast(affine(e, y, e.in(1), e.in(2)), e.result_dtype())};
}

std::vector<ValueId> group_norm(Expansion& e) {
  const auto& a = e.attrs<GroupNormAttrs>();
  const ValueId x = e.wide(e.in(0));
  DimTable& t = e.b.dims();
  const std::vector<Dim> sizes = e.dims(x);
  const Dim rest = t.product(std::span(sizes).subspan(1));
  if (!t.divides(Dim(a.groups), rest)) return {};
  const ValueId grouped = e.b.reshape(x, {sizes[0], Dim(a.groups), t.floor_div(rest, Dim(a.groups))});
  const ValueId y = e.b.reshape(normalised(e, grouped, {2}, a.eps, false), sizes);
  const int rank = e.g.rank(x);
  const ValueId gamma = e.has(1) ? e.along(e.in(1), 1, rank) : ValueId(), beta = e.has(2) ? e.along(e.in(2), 1, rank) : ValueId();
  return {e.b.cast(affine(e, y, gamma, beta), e.result_dtype())};
}

// x*scale + shift; scale and shift depend on parameters only and are computed at load time.
std::vector<ValueId> batch_norm(Expansion& e) {
  const auto& a = e.attrs<NormAttrs>();
  const ValueId gamma = e.wide(e.in(1)), beta = e.wide(e.in(2)), mean = e.wide(e.in(3)), variance = e.wide(e.in(4));
  const ValueId scale = e.b.mul(gamma, e.b.unary(OpKind::Rsqrt, e.b.add(variance, e.num(variance, a.eps))));
  const ValueId shift = e.b.sub(beta, e.b.mul(mean, scale)), x = e.wide(e.in(0));
  const int rank = e.g.rank(x);
  return {e.b.cast(e.b.add(e.b.mul(x, e.along(scale, a.axis, rank)), e.along(shift, a.axis, rank)), e.result_dtype())};
}

std::vector<ValueId> softmax(Expansion& e) {
  const std::vector<int64_t> axes{e.attrs<AxisAttrs>().axis};
  const ValueId x = e.wide(e.in(0));
  const ValueId d = e.b.sub(x, e.b.reduce(ReduceOp::Max, x, axes, true));
  const ValueId p = e.b.unary(OpKind::Exp, d), sum = e.b.reduce(ReduceOp::Sum, p, axes, true);
  const ValueId y = e.g.op(e.n) == OpKind::Softmax ? e.b.div(p, sum) : e.b.sub(d, e.b.unary(OpKind::Log, sum));
  return {e.rounded(e.b.cast(y, e.g.dtype(e.in(0))), kResultScale)};
}

// Sums of `width` neighbours along axis 1, at `count` positions. Takes O(log width) nodes for large windows of static dims: a sum
// of 2^k neighbours is the sum of two sums of 2^(k-1).
ValueId window_sum(Expansion& e, ValueId x, int64_t width, Dim count) {
  constexpr int64_t kWritten = 64;
  if (width <= kWritten || !count.is_static()) {
    ValueId sum = e.b.narrow(x, 1, 0, count);
    for (int64_t i = 1; i < width; ++i) sum = e.b.add(sum, e.b.narrow(x, 1, i, count));
    return sum;
  }
  ValueId sum, powers = x;
  int64_t length = count.size() + width - 1;
  for (int64_t step = 1, at = 0; at < width; step *= 2) {
    if (width & step) {
      const ValueId part = e.b.narrow(powers, 1, at, count);
      sum = sum.valid() ? e.b.add(sum, part) : part;
      at += step;
    }
    if (at == width) break;
    length -= step;
    powers = e.b.add(e.b.narrow(powers, 1, 0, Dim(length)), e.b.narrow(powers, 1, step, Dim(length)));
  }
  return sum;
}

// x / (bias + alpha / size * (sum of squares over a window of `size` channels))^beta.
std::vector<ValueId> lrn(Expansion& e) {
  const auto& a = e.attrs<LrnAttrs>();
  const ValueId x = e.wide(e.in(0));
  // Channels beyond the tensor are zero, so a window reaches at most from the first channel to the last.
  const Dim channels = e.dim(x, 1);
  const int64_t reach = channels.is_static() ? std::max<int64_t>(channels.size() - 1, 0) : a.size;
  const int64_t before = std::min((a.size - 1) / 2, reach), after = std::min(a.size / 2, reach);
  PadAttrs around;
  around.before.assign(static_cast<size_t>(e.g.rank(x)), Dim(0));
  around.after = around.before;
  around.before[1] = Dim(before);
  around.after[1] = Dim(after);
  const ValueId squares = e.b.create(OpKind::Pad, {e.b.mul(x, x)}, around);
  const ValueId sum = window_sum(e, squares, before + after + 1, channels);
  const ValueId base = e.b.add(e.b.mul(sum, e.num(x, a.alpha / static_cast<double>(a.size))), e.num(x, a.bias));
  const ValueId power = e.b.create(OpKind::Pow, {base, e.num(x, a.beta)});
  return {e.b.cast(e.b.div(x, power), e.result_dtype())};
}

}  // namespace

std::span<const DecompositionEntry> norm_decompositions() {
  static constexpr DecompositionEntry kTable[] = {
      {OpKind::LayerNorm, norm},
      {OpKind::RmsNorm, norm},
      {OpKind::GroupNorm, group_norm},
      {OpKind::BatchNormInference, batch_norm},
      {OpKind::Softmax, softmax},
      {OpKind::LogSoftmax, softmax},
      {OpKind::Lrn, lrn},
  };
  return kTable;
}

}  // namespace rlxc::legalise
