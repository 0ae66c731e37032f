// The gradient of attention: the probabilities are computed again; grouped heads of k and v get the sums of their group.
#include <cmath>
#include <limits>

#include "transform/nn_gradients.h"
#include "transform/rules.h"

namespace rlxc::transform {
namespace {

// [B,H,S,D] of any layout, and back into the layout of `like`.
Term heads_first(Term x, AttentionLayout layout, int64_t heads) {
  const auto d = x.dims();
  if (layout == AttentionLayout::BHSD || d.size() < 3) return x;
  if (layout == AttentionLayout::Packed) x = reshape(x, {d[0], d[1], Dim(heads), x.b->dims().floor_div(d[2], Dim(heads))});
  return transpose(x, {0, 2, 1, 3});
}
Term as_before(Term x, AttentionLayout layout, Term like) {
  return layout == AttentionLayout::BHSD ? x : reshape(transpose(x, {0, 2, 1, 3}), like.dims());
}

// Which keys a query sees, broadcast to [B,H,Sq,Sk]; invalid: all.
Term visible(const AttentionAttrs& a, Term mask, Term q, Dim queries, Dim keys) {
  Term seen = q.with({});
  if (a.mask == MaskKind::Causal || a.mask == MaskKind::SlidingWindow) {
    Builder& b = *q.b;
    const Term past = q.with(b.create(OpKind::DimValue, {}, DimsAttrs{{b.dims().sub(keys, queries)}, true}));
    const Term at = reshape(count_up(b, queries), {queries, Dim(1)}) + past, key = count_up(b, keys);
    seen = key <= at;
    if (a.mask == MaskKind::SlidingWindow) seen = both(seen, key >= at - static_cast<double>(a.window));
  }
  if (!mask.valid() || a.mask == MaskKind::Bias) return seen;
  const Term given = mask.dtype() == DType::Bool ? mask : make(OpKind::Ne, {mask, mask.number(0)});
  return seen.valid() ? both(seen, given) : given;
}

bool attention_back(Adjoint& a) {
  const AttentionGradients g =
      attention_gradients(a.attrs<AttentionAttrs>(), a.in(0), a.in(1), a.in(2), a.has(3) ? a.in(3) : a.in(0).with({}), a.g());
  if (!g.q.valid() || !g.k.valid() || !g.v.valid()) return false;
  a.give(0, g.q);
  a.give(1, g.k);
  a.give(2, g.v);
  if (a.has(3)) a.give(3, g.scores);
  return true;
}

}  // namespace

AttentionGradients attention_gradients(const AttentionAttrs& a, Term q0, Term k0, Term v0, Term mask, Term dy0) {
  const int64_t kv_heads = a.num_kv_heads ? a.num_kv_heads : a.num_heads;
  const bool turned = a.k_transposed && a.layout == AttentionLayout::BHSD;
  const Term q = heads_first(q0, a.layout, a.num_heads), v = heads_first(v0, a.layout, kv_heads),
             dy = heads_first(dy0, a.out_layout, a.num_heads);
  const Term k = turned ? transpose(k0, {0, 1, 3, 2}) : heads_first(k0, a.layout, kv_heads);
  const Term none = q.with({});
  if (q.rank() != 4 || k.rank() != 4 || v.rank() != 4 || dy.rank() != 4) return {none, none, none, none};
  const auto d = q.dims();
  const Dim keys = k.dims()[2], owners = k.dims()[1], group = q.b->dims().floor_div(d[1], owners);
  const auto width = q.b->dims().constant_value(d[3]);
  if (a.scale == 0 && !width) return {none, none, none, none};
  const double scale = a.scale != 0 ? a.scale : 1 / std::sqrt(static_cast<double>(*width));
  // Queries of one group beside each other: [B, owners, group, S, D] and [B, owners, 1, S, D].
  const auto grouped = [&](Term x) { return reshape(x, {d[0], owners, group, x.dims()[2], x.dims()[3]}); };
  const auto owned = [&](Term x) { return reshape(x, {d[0], owners, Dim(1), x.dims()[2], x.dims()[3]}); };
  const std::vector<Dim> shape{d[0], d[1], d[2], keys};
  const auto products = [&](Term x, Term y) { return reshape(matmul(grouped(x), owned(y), false, true), shape); };

  Term s = products(q, k) * scale, slope = none;
  if (a.softcap > 0) {
    const Term t = tanh(s / a.softcap);
    s = t * a.softcap;
    slope = 1 - square(t);
  }
  if (a.mask == MaskKind::Bias && mask.valid()) s = s + mask;
  const Term seen = visible(a, mask, q, d[2], keys);
  if (seen.valid()) s = select(seen, s, static_cast<double>(std::numeric_limits<float>::lowest()));
  Term p = make(OpKind::Softmax, {s}, AxisAttrs{3});
  if (seen.valid() && !a.finite_mask) p = select(seen, p, 0.0);
  const Term dp = p * products(dy, v);
  Term ds = dp - p * sum(dp, {3});
  if (seen.valid()) ds = select(seen, ds, 0.0);
  const Term raw = (slope.valid() ? ds * slope : ds) * scale;
  const auto to_owner = [&](Term x, Term y) { return sum(matmul(grouped(x), grouped(y), true), {2}, false); };
  const Term dq = reshape(matmul(grouped(raw), owned(k)), d), dk = to_owner(raw, q), dv = to_owner(p, dy);
  return {as_before(dq, a.layout, q0), turned ? transpose(dk, {0, 1, 3, 2}) : as_before(dk, a.layout, k0),
          as_before(dv, a.layout, v0), ds};
}

std::span<const RuleEntry> attention_rules() {
  static constexpr RuleEntry kTable[] = {{OpKind::Attention, attention_back}};
  return kTable;
}

}  // namespace rlxc::transform
