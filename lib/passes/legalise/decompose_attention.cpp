// Decompositions of attention and rotary embedding, for all layouts.
#include <cmath>
#include <limits>

#include "passes/legalise/decompositions.h"

namespace rlxc::legalise {
namespace {

// Whether an operand that quantizes a rotation has a number for each head.
bool by_head(const Expansion& e, size_t i) { return e.has(i) && num_elements(e.g.type(e.in(i))) != 1; }

// Returns q, k or v as [B,H,S,D].
ValueId heads_first(Expansion& e, ValueId x, AttentionLayout layout, int64_t heads) {
  if (layout == AttentionLayout::BHSD) return x;
  if (layout == AttentionLayout::Packed)
    x = e.b.reshape(x, {e.dim(x, 0), e.dim(x, 1), Dim(heads), e.b.dims().floor_div(e.dim(x, 2), Dim(heads))});
  return e.b.transpose(x, {0, 2, 1, 3});
}

// bool [Sq,Sk]: the keys visible to a query. The last query is aligned with the last key.
ValueId visible(Expansion& e, Dim queries, Dim keys, const AttentionAttrs& a) {
  const ValueId row = e.b.reshape(e.positions(queries), {queries, Dim(1)}), column = e.positions(keys);
  const ValueId last = e.b.add(row, e.size(e.b.dims().sub(keys, queries)));
  const ValueId causal = e.b.create(OpKind::Le, {column, last});
  if (a.mask != MaskKind::SlidingWindow) return causal;
  const ValueId first = e.b.sub(last, e.b.scalar(DType::I64, static_cast<double>(a.window)));
  return e.b.create(OpKind::And, {causal, e.b.create(OpKind::Ge, {column, first})});
}

std::vector<ValueId> attention(Expansion& e) {
  const auto& a = e.attrs<AttentionAttrs>();
  DimTable& t = e.b.dims();
  const int64_t kv = a.kv_heads();
  ValueId q = heads_first(e, e.in(0), a.layout, a.num_heads), k = heads_first(e, e.in(1), a.layout, kv),
          v = heads_first(e, e.in(2), a.layout, kv);
  if (!q.valid() || !k.valid() || !v.valid()) return {};
  k = e.b.cast(k, e.g.dtype(q));
  v = e.b.cast(v, e.g.dtype(q));
  const Dim batch = e.dim(q, 0), heads = e.dim(q, 1), queries = e.dim(q, 2), width = e.dim(q, 3), kv_heads = e.dim(k, 1);
  const Dim keys = e.dim(v, 2), value_width = e.dim(v, 3);
  if (a.scale == 0 && !width.is_static()) return {};
  // Stacks the queries of all heads that share a key head as rows.
  const bool grouped = heads != kv_heads;
  if (grouped && (!heads.is_static() || !kv_heads.is_static())) return {};
  const Dim rows = grouped ? t.mul(Dim(heads.size() / kv_heads.size()), queries) : queries;
  if (grouped) q = e.b.reshape(q, {batch, kv_heads, rows, width});
  ValueId s = e.wide(e.b.matmul(q, k, false, !a.k_transposed));
  s = e.b.mul(s, e.num(s, a.scale != 0 ? a.scale : 1 / std::sqrt(static_cast<double>(width.size()))));
  if (grouped) s = e.b.reshape(s, {batch, heads, queries, keys});
  if (a.softcap > 0) s = e.b.mul(e.b.unary(OpKind::Tanh, e.b.div(s, e.num(s, a.softcap))), e.num(s, a.softcap));
  const double hidden = a.finite_mask ? std::numeric_limits<float>::lowest() : -std::numeric_limits<double>::infinity();
  ValueId mask;
  if (a.mask == MaskKind::Bias) s = e.b.add(s, e.b.cast(e.in(3), e.g.dtype(s)));
  else if (e.has(3)) mask = e.b.cast(e.in(3), DType::Bool);
  if (a.mask == MaskKind::Causal || a.mask == MaskKind::SlidingWindow) {
    const ValueId order = visible(e, queries, keys, a);
    mask = mask.valid() ? e.b.create(OpKind::And, {order, mask}) : order;
  }
  if (mask.valid()) s = e.b.create(OpKind::Where, {mask, s, e.num(s, hidden)});
  ValueId p = e.b.create(OpKind::Softmax, {s}, AxisAttrs{3});
  // A query without a visible key gives 0, where a softmax over -inf would give NaN.
  if (a.mask != MaskKind::None && !a.finite_mask)
    p = e.b.create(OpKind::Where, {e.b.create(OpKind::Eq, {s, e.num(s, hidden)}), e.num(s, 0), p});
  p = e.b.cast(p, e.g.dtype(v));
  if (grouped) p = e.b.reshape(p, {batch, kv_heads, rows, keys});
  ValueId y = e.b.matmul(p, v);
  if (grouped) y = e.b.reshape(y, {batch, heads, queries, value_width});
  if (a.out_layout != AttentionLayout::BHSD) y = e.b.transpose(y, {0, 2, 1, 3});
  if (a.out_layout == AttentionLayout::Packed) y = e.b.reshape(y, e.result_dims());
  return {e.rounded(y, kAttentionScale)};
}

// Reshapes a table [.., rows, C] of at least S rows to broadcast to x, [B,H,S,D] or [B,S,H,D]. Invalid if the shapes do not
// match.
ValueId beside(Expansion& e, ValueId table, ValueId x, bool heads_inner) {
  const Dim length = e.dim(x, heads_inner ? 1 : 2);
  const int rank = e.g.rank(table);
  if (rank >= 2 && e.dim(table, -2) != Dim(1) && !e.b.dims().equal(e.dim(table, -2), length))
    table = e.b.narrow(table, rank - 2, 0, length);
  if (!table.valid() || rank > 4 || (rank == 3 && e.dim(table, 0) != Dim(1) && e.dim(table, 0) != e.dim(x, 0))) return {};
  const std::vector<Dim> d = e.dims(table);
  if (d.size() == 3)
    return e.b.reshape(table, heads_inner ? std::vector<Dim>{d[0], d[1], 1, d[2]} : std::vector<Dim>{d[0], 1, d[1], d[2]});
  if (!heads_inner || d.size() < 2) return table;
  return d.size() == 2 ? e.b.reshape(table, {d[0], 1, d[1]}) : e.b.transpose(table, {0, 2, 1, 3});
}

struct Halves {
  ValueId first, second;
};
// The two sets of elements of the last axis (2*half) that are rotated in pairs.
Halves halves(Expansion& e, ValueId x, int64_t half, RopeStyle style) {
  const int64_t axis = e.g.rank(x) - 1;
  if (style == RopeStyle::NeoX) return {e.b.narrow(x, axis, 0, half), e.b.narrow(x, axis, half, half)};
  std::vector<Dim> d = e.dims(x);
  d.back() = Dim(half);
  const std::vector<Dim> flat = d;
  d.push_back(Dim(2));
  const ValueId pairs = e.b.reshape(x, d);
  return {e.b.reshape(e.b.narrow(pairs, axis + 1, 0, 1), flat), e.b.reshape(e.b.narrow(pairs, axis + 1, 1, 1), flat)};
}

std::vector<ValueId> rope(Expansion& e) {
  const auto& a = e.attrs<RopeAttrs>();
  ValueId x = e.in(0);
  const bool packed = a.layout == AttentionLayout::Packed;
  if (packed) x = e.b.reshape(x, {e.dim(x, 0), e.dim(x, 1), e.b.dims().floor_div(e.dim(x, 2), Dim(a.head_dim)), Dim(a.head_dim)});
  if (!x.valid() || e.g.rank(x) != 4 || !e.dim(x, 3).is_static()) return {};
  const int64_t width = e.dim(x, 3).size(), rotated = a.n_rot ? a.n_rot : width, half = rotated / 2;
  const Dim columns = e.dim(e.in(1), -1);
  if (!columns.is_static() || rotated % 2 || rotated > width || (columns.size() != half && columns.size() < rotated)) return {};
  const bool heads_inner = a.layout != AttentionLayout::BHSD;
  // Computes in the wider type of the value and the tables.
  const DType table = e.g.dtype(e.in(1)), wide = bits(table) > bits(e.g.dtype(x)) ? table : e.g.dtype(x);
  x = e.b.cast(x, wide);
  if (e.has(3)) {
    x = e.b.create(OpKind::RmsNorm, {x}, NormAttrs{3, a.eps});
    ValueId gamma = e.b.cast(e.in(3), wide);
    if (e.g.rank(gamma) == 2 && !heads_inner) gamma = e.b.reshape(gamma, {e.dim(gamma, 0), 1, e.dim(gamma, 1)});
    x = e.b.mul(x, gamma);
  }
  ValueId c = beside(e, e.b.cast(e.in(1), wide), x, heads_inner), s = beside(e, e.b.cast(e.in(2), wide), x, heads_inner);
  if (!c.valid() || !s.valid()) return {};
  if (columns.size() > rotated) {
    c = e.b.narrow(c, e.g.rank(c) - 1, 0, rotated);
    s = e.b.narrow(s, e.g.rank(s) - 1, 0, rotated);
  }
  const bool full = columns.size() >= rotated;
  const Halves cs = full ? halves(e, c, half, a.style) : Halves{c, c}, sn = full ? halves(e, s, half, a.style) : Halves{s, s};
  const Halves xs = halves(e, rotated == width ? x : e.b.narrow(x, 3, 0, rotated), half, a.style);
  const ValueId y1 = e.b.sub(e.b.mul(xs.first, cs.first), e.b.mul(xs.second, sn.first));
  const ValueId y2 = e.b.add(e.b.mul(xs.second, cs.second), e.b.mul(xs.first, sn.second));
  if (!y1.valid() || !y2.valid()) return {};
  std::vector<ValueId> parts{y1, y2};
  if (a.style == RopeStyle::GptJ) {
    std::vector<Dim> d = e.dims(y1);
    d.push_back(Dim(1));
    const std::vector<ValueId> pair{e.b.reshape(y1, d), e.b.reshape(y2, d)};
    d.pop_back();
    d.back() = Dim(rotated);
    parts = {e.b.reshape(e.b.concat(pair, 4), d)};
  }
  if (rotated < width) parts.push_back(e.b.narrow(x, 3, rotated, width - rotated));
  ValueId y = e.b.cast(parts.size() == 1 ? parts[0] : e.b.concat(parts, 3), e.g.dtype(e.in(0)));
  y = packed ? e.b.reshape(y, e.result_dims()) : y;
  if (e.has(kRopeFactor) && !by_head(e, kRopeFactor)) y = e.b.mul(y, e.b.reshape(e.in(kRopeFactor), {}));
  if (!by_head(e, kRopeFactor) && !by_head(e, kRopeFactor + 1) && !by_head(e, kRopeFactor + 2))
    return {e.rounded(y, kRopeFactor + 1)};
  // Numbers of each head.
  const Dim heads = e.b.dims().floor_div(e.result_dims()[2], Dim(a.head_dim));
  const auto of_heads = [&](size_t i) {
    const ValueId v = e.in(i);
    return by_head(e, i) ? v : e.b.expand(e.b.reshape(v, {1}), {heads});
  };
  y = e.b.reshape(y, {e.result_dims()[0], e.result_dims()[1], heads, Dim(a.head_dim)});
  if (by_head(e, kRopeFactor)) y = e.b.mul(y, e.b.reshape(e.in(kRopeFactor), {heads, 1}));
  const ValueId zero = of_heads(kRopeFactor + 2);
  y = e.b.create(OpKind::Quantize, {y, of_heads(kRopeFactor + 1), zero}, QuantAttrs{2, 0, e.g.dtype(zero), true});
  return {e.b.reshape(y, e.result_dims())};
}

std::vector<ValueId> rope_append(Expansion& e) {
  const size_t keys = kRopeAppendCaches, values = keys + 1;
  const auto rotated = [&](size_t i) { return e.b.create(OpKind::Rope, {e.in(i), e.in(3), e.in(4)}, e.attrs<RopeAttrs>()); };
  const auto appended = [&](size_t cache, ValueId fresh) {
    if (!fresh.valid()) return ValueId();
    return e.b.create(OpKind::ScatterElements,
                      {e.in(cache), e.b.expand(e.in(values + 1), e.dims(fresh)), e.b.cast(fresh, e.g.dtype(e.in(cache)))},
                      ScatterAttrs{2});
  };
  return {rotated(0), appended(keys, rotated(1)), appended(values, e.in(2))};
}

}  // namespace

std::span<const DecompositionEntry> attention_decompositions() {
  static constexpr DecompositionEntry kTable[] = {
      {OpKind::Attention, attention}, {OpKind::Rope, rope}, {OpKind::FusedRopeAppend, rope_append}};
  return kTable;
}

}  // namespace rlxc::legalise
