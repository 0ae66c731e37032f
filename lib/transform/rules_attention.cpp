// The gradient of attention: the probabilities are computed again, for a block of queries at a time; grouped heads of k and v get
// the sums of their group.
#include <algorithm>
#include <array>
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

// Which keys the queries see, broadcast to [B,H,queries,keys]; invalid: all. `last`: the last key that the first of them sees, an
// i64 scalar.
Term visible(const AttentionAttrs& a, Term mask, Term last, Dim queries, Dim keys) {
  Term seen = mask.with({});
  if (a.mask == MaskKind::Causal || a.mask == MaskKind::SlidingWindow) {
    Builder& b = *last.b;
    const Term at = reshape(count_up(b, queries), {queries, Dim(1)}) + last, key = count_up(b, keys);
    seen = key <= at;
    if (a.mask == MaskKind::SlidingWindow) seen = both(seen, key >= at - static_cast<double>(a.window));
  }
  if (!mask.valid() || a.mask == MaskKind::Bias) return seen;
  const Term given = mask.dtype() == DType::Bool ? mask : make(OpKind::Ne, {mask, mask.number(0)});
  return seen.valid() ? both(seen, given) : given;
}

// Some rows of queries, or all of them, with all keys: q and dy [B,H,rows,D], k and v [B,owners,keys,D].
struct Rows {
  Term q, k, v, mask, dy, last;
};

// The same, by its scores [B,H,rows,keys]. Queries of one group lie beside each other: [B, owners, group, rows, D].
AttentionGradients gradients_of_rows(const AttentionAttrs& a, double scale, const Rows& r) {
  const auto d = r.q.dims(), of_keys = r.k.dims();
  const Dim keys = of_keys[2], owners = of_keys[1], group = r.q.b->dims().floor_div(d[1], owners);
  const auto grouped = [&](Term x) { return reshape(x, {d[0], owners, group, x.dims()[2], x.dims()[3]}); };
  const auto owned = [&](Term x) { return reshape(x, {d[0], owners, Dim(1), x.dims()[2], x.dims()[3]}); };
  const std::vector<Dim> shape{d[0], d[1], d[2], keys};
  const auto products = [&](Term x, Term y) { return reshape(matmul(grouped(x), owned(y), false, true), shape); };

  Term s = products(r.q, r.k) * scale, slope = r.q.with({});
  if (a.softcap > 0) {
    const Term t = tanh(s / a.softcap);
    s = t * a.softcap;
    slope = 1 - square(t);
  }
  if (a.mask == MaskKind::Bias && r.mask.valid()) s = s + r.mask;
  const Term seen = visible(a, r.mask, r.last, d[2], keys);
  if (seen.valid()) s = select(seen, s, static_cast<double>(std::numeric_limits<float>::lowest()));
  Term p = make(OpKind::Softmax, {s}, AxisAttrs{3});
  if (seen.valid() && !a.finite_mask) p = select(seen, p, 0.0);
  const Term dp = p * products(r.dy, r.v);
  Term ds = dp - p * sum(dp, {3});
  if (seen.valid()) ds = select(seen, ds, 0.0);
  const Term raw = (slope.valid() ? ds * slope : ds) * scale;
  const auto to_owner = [&](Term x, Term y) { return sum(matmul(grouped(x), grouped(y), true), {2}, false); };
  return {reshape(matmul(grouped(raw), owned(r.k)), d), to_owner(raw, r.q), to_owner(p, r.dy), ds};
}

// How many rows of queries are taken at a time; 0: all of them. The scores of a block take the place of those of all.
int64_t rows_at_a_time(Dim queries) {
  constexpr int64_t kMost = 64, kLeast = 16;
  if (!queries.is_static() || queries.size() < 2 * kMost) return 0;
  for (int64_t rows = kMost; rows >= kLeast; --rows)
    if (queries.size() % rows == 0) return rows;
  return 0;
}

// A loop over blocks of queries, which adds up the gradients by k and v.
AttentionGradients gradients_in_blocks(const AttentionAttrs& a, double scale, const Rows& all, int64_t rows) {
  Builder& b = *all.q.b;
  Module& m = b.module();
  const Term none = all.q.with({});
  const int64_t blocks = all.q.dims()[2].size() / rows;
  // [.., queries, x] as [.., blocks, rows, x], whose axis of blocks is the third from behind.
  const auto cut = [&](Term x) {
    std::vector<Dim> d = x.dims();
    d.insert(d.end() - 2, Dim(blocks));
    d[d.size() - 2] = Dim(rows);
    return reshape(x, d);
  };
  const auto is_cut = [&](Term x) { return x.rank() >= 2 && x.dims()[static_cast<size_t>(x.rank()) - 2] == all.q.dims()[2]; };
  const bool cuts_mask = all.mask.valid() && is_cut(all.mask);
  std::vector<int64_t> starts;
  for (int64_t i = 0; i < blocks; ++i) starts.push_back(i * rows);

  std::vector<Term> states{zeros(b, all.k.dtype(), all.k.dims()), zeros(b, all.v.dtype(), all.v.dims())};
  std::vector<Term> slices{{&b, b.ints(starts)}, cut(all.q), cut(all.dy)}, captured{all.k, all.v, all.last};
  if (all.mask.valid()) (cuts_mask ? slices : captured).push_back(cuts_mask ? cut(all.mask) : all.mask);
  ScanAttrs attrs{2, static_cast<int64_t>(slices.size()), {}, {}, {2}, {0}};
  std::vector<ValueId> operands;
  Graph& body = m.graph(m.make_graph("attention_rows" + std::to_string(m.graph_count())));
  Builder inside(body);
  std::vector<Term> inputs;
  const auto input = [&](Term like, std::vector<Dim> dims) {
    operands.push_back(like.v);
    inputs.push_back({&inside, inside.input("v" + std::to_string(inputs.size()), tensor_type(like.dtype(), std::move(dims)))});
  };
  for (const Term& t : states) input(t, t.dims());
  for (const Term& t : slices) {
    std::vector<Dim> d = t.dims();
    const int64_t axis = std::max(0, t.rank() - 3);
    d.erase(d.begin() + axis);
    attrs.input_axes.push_back(axis);
    attrs.input_reverse.push_back(0);
    input(t, d);
  }
  for (const Term& t : captured) input(t, t.dims());

  Rows r{inputs[3], inputs[2 + slices.size()], inputs[3 + slices.size()], none, inputs[4], inputs[4 + slices.size()] + inputs[2]};
  if (all.mask.valid()) r.mask = cuts_mask ? inputs[5] : inputs.back();
  const AttentionGradients part = gradients_of_rows(a, scale, r);
  if (!part.q.valid() || !part.k.valid() || !part.v.valid()) return {none, none, none, none};
  body.set_outputs(std::array{(inputs[0] + part.k).v, (inputs[1] + part.v).v, part.q.v});
  const NodeId n = b.create_node(OpKind::Scan, operands, attrs, std::array{body.id()});
  if (!n.valid()) return {none, none, none, none};
  const auto result = [&](size_t i) { return Term{&b, b.graph().result(n, i)}; };
  return {reshape(result(2), all.q.dims()), result(0), result(1), none};
}

bool attention_back(Adjoint& a) {
  const DType t = a.in(0).dtype();
  const AttentionGradients g = attention_gradients(a.attrs<AttentionAttrs>(), a.in(0), a.in(1).as(t), a.in(2).as(t),
                                                   a.has(3) ? a.in(3) : a.in(0).with({}), a.g(), a.wants(3));
  if (!g.q.valid() || !g.k.valid() || !g.v.valid()) return false;
  a.give(0, g.q);
  a.give(1, g.k.as(a.in(1).dtype()));
  a.give(2, g.v.as(a.in(2).dtype()));
  if (a.wants(3)) a.give(3, g.scores);
  return true;
}

}  // namespace

AttentionGradients attention_gradients(const AttentionAttrs& a, Term q0, Term k0, Term v0, Term mask, Term dy0,
                                       bool wants_scores) {
  const int64_t kv_heads = a.kv_heads();
  const bool turned = a.k_transposed && a.layout == AttentionLayout::BHSD;
  const Term q = heads_first(q0, a.layout, a.num_heads), v = heads_first(v0, a.layout, kv_heads),
             dy = heads_first(dy0, a.out_layout, a.num_heads);
  const Term k = turned ? transpose(k0, {0, 1, 3, 2}) : heads_first(k0, a.layout, kv_heads);
  const Term none = q.with({});
  if (q.rank() != 4 || k.rank() != 4 || v.rank() != 4 || dy.rank() != 4) return {none, none, none, none};
  const auto width = q.b->dims().constant_value(q.dims()[3]);
  if (a.scale == 0 && !width) return {none, none, none, none};
  const double scale = a.scale != 0 ? a.scale : 1 / std::sqrt(static_cast<double>(*width));
  const Dim queries = q.dims()[2], past = q.b->dims().sub(k.dims()[2], queries);
  const Rows all{q, k, v, mask, dy, q.with(q.b->create(OpKind::DimValue, {}, DimsAttrs{{past}, true}))};
  const int64_t rows = wants_scores ? 0 : rows_at_a_time(queries);
  const AttentionGradients g = rows ? gradients_in_blocks(a, scale, all, rows) : gradients_of_rows(a, scale, all);
  return {as_before(g.q, a.layout, q0), turned ? transpose(g.k, {0, 1, 3, 2}) : as_before(g.k, a.layout, k0),
          as_before(g.v, a.layout, v0), g.scores};
}

std::span<const RuleEntry> attention_rules() {
  static constexpr RuleEntry kTable[] = {{OpKind::Attention, attention_back}};
  return kTable;
}

}  // namespace rlxc::transform
