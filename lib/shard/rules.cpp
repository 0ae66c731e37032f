#include "shard/rules.h"

#include <algorithm>
#include <numeric>

namespace rlxc::shard {
namespace {

class RuleMaker {
 public:
  RuleMaker(const Graph& graph, NodeId node) : g(graph), n(node) {
    for (ValueId v : g.operands(n)) rule.operands.emplace_back(v.valid() ? static_cast<size_t>(g.rank(v)) : 0);
    for (size_t r = 0; r < g.result_count(n); ++r) rule.results.emplace_back(static_cast<size_t>(g.rank(g.result(n, r))));
  }

  template <class A>
  const A& attrs() const {
    return g.attrs<A>(n);
  }
  bool has(size_t i) const { return g.operand(n, i).valid(); }
  std::span<const Dim> in(size_t i) const { return g.dims(g.operand(n, i)); }
  std::span<const Dim> out(size_t r = 0) const { return g.dims(g.result(n, r)); }

  // A factor for a dim; kNone if the dim is symbolic or cannot be split.
  static constexpr size_t kNone = ~size_t{0};
  size_t factor(Dim size, Factor::Kind kind = Factor::Kind::Map, ReduceOp op = ReduceOp::Sum) {
    if (!size.is_static() || size.size() < 2) return kNone;
    rule.factors.push_back({size.size(), kind, op});
    return rule.factors.size() - 1;
  }
  void operand(size_t i, size_t dim, size_t f, int64_t blocks = 1) {
    if (f != kNone && has(i)) rule.operands[i][dim].push_back({f, blocks});
  }
  void result(size_t dim, size_t f, int64_t blocks = 1, size_t r = 0) {
    if (f != kNone) rule.results[r][dim].push_back({f, blocks});
  }

  // Dims of the result, and those of the operands that broadcast to it.
  void broadcast(size_t first, size_t last) {
    const auto to = out();
    for (size_t d = 0; d < to.size(); ++d) {
      const size_t f = factor(to[d]);
      result(d, f);
      for (size_t i = first; i < last; ++i) aligned(i, d, to.size(), f, to[d]);
    }
  }
  // Dim `d` of a shape of this rank, in an operand that broadcasts to it.
  void aligned(size_t i, size_t d, size_t rank, size_t f, Dim size) {
    if (!has(i) || in(i).size() + d < rank) return;
    const size_t at = in(i).size() + d - rank;
    if (in(i)[at] == size) operand(i, at, f);
  }
  // Equal dims of operand `i` and all results, but not `excluded`.
  void same(size_t i, const std::vector<int64_t>& excluded) {
    for (size_t d = 0; d < in(i).size(); ++d) {
      if (std::ranges::find(excluded, static_cast<int64_t>(d)) != excluded.end()) continue;
      const size_t f = factor(in(i)[d]);
      operand(i, d, f);
      for (size_t r = 0; r < rule.results.size(); ++r)
        if (d < out(r).size() && out(r)[d] == in(i)[d]) result(d, f, 1, r);
    }
  }

  const Graph& g;
  const NodeId n;
  Rule rule;
};

std::vector<int64_t> axes_from(int64_t axis, size_t rank) {
  std::vector<int64_t> out;
  for (int64_t a = axis; a < static_cast<int64_t>(rank); ++a) out.push_back(a);
  return out;
}

void elementwise(RuleMaker& m) { m.broadcast(0, m.rule.operands.size()); }
void expand(RuleMaker& m) { m.broadcast(0, 1); }

void transpose(RuleMaker& m) {
  const auto& perm = m.attrs<PermAttrs>().perm;
  for (size_t d = 0; d < perm.size(); ++d) {
    const size_t f = m.factor(m.out()[d]);
    m.operand(0, static_cast<size_t>(perm[d]), f);
    m.result(d, f);
  }
}

// The dims that a dim is split into, or that are merged into one.
void split_or_merge(RuleMaker& m, bool one_is_operand, size_t one, size_t first, size_t last) {
  const auto many = one_is_operand ? m.out() : m.in(0);
  int64_t before = 1;
  for (size_t d = first; d < last; ++d) {
    const size_t f = m.factor(many[d]);
    m.operand(0, one_is_operand ? one : d, f, one_is_operand ? before : 1);
    m.result(one_is_operand ? d : one, f, one_is_operand ? 1 : before);
    before *= many[d].size();
  }
}

void reshape(RuleMaker& m) {
  const auto a = m.in(0), b = m.out();
  size_t i = 0, j = 0, a_end = a.size(), b_end = b.size();
  const auto pair = [&](size_t x, size_t y) {
    const size_t f = m.factor(a[x]);
    m.operand(0, x, f);
    m.result(y, f);
  };
  while (i < a_end && j < b_end && a[i] == b[j]) pair(i++, j++);
  while (a_end > i && b_end > j && a[a_end - 1] == b[b_end - 1]) pair(--a_end, --b_end);
  const auto known = [](std::span<const Dim> dims) {
    return std::ranges::all_of(dims, [](Dim d) { return d.is_static() && d.size() > 0 && d.size() < 1 << 30; });
  };
  if (!known(a.subspan(i, a_end - i)) || !known(b.subspan(j, b_end - j))) return;
  while (i < a_end && j < b_end) {
    const size_t a_first = i, b_first = j;
    int64_t p = a[i++].size(), q = b[j++].size();
    while (p != q && (p < q ? i < a_end : j < b_end)) p < q ? p *= a[i++].size() : q *= b[j++].size();
    if (p != q) return;
    if (i - a_first == 1) split_or_merge(m, true, a_first, b_first, j);
    else if (j - b_first == 1) split_or_merge(m, false, b_first, a_first, i);
    else if (const int64_t common = std::gcd(a[a_first].size(), b[b_first].size()); common > 1) {
      const size_t f = m.factor(Dim(common));
      m.operand(0, a_first, f);
      m.result(b_first, f);
    }
  }
}

void narrow(RuleMaker& m) {
  const auto& a = m.attrs<NarrowAttrs>();
  const auto axis = static_cast<size_t>(a.axis);
  m.same(0, {a.axis});
  // One whole block of several.
  const Dim size = m.in(0)[axis];
  if (!size.is_static() || !a.start.is_static() || !a.len.is_static() || a.len.size() < 2) return;
  if (size.size() % a.len.size() != 0 || a.start.size() % a.len.size() != 0) return;
  const size_t f = m.factor(a.len);
  m.operand(0, axis, f, size.size() / a.len.size());
  m.result(axis, f);
}

void all_but_axis(RuleMaker& m) { m.same(0, {m.attrs<AxisAttrs>().axis}); }
void slice(RuleMaker& m) { m.same(0, {m.attrs<SliceAttrs>().axis}); }
void cumulative(RuleMaker& m) { m.same(0, {m.attrs<CumAttrs>().axis}); }
void topk(RuleMaker& m) { m.same(0, {m.attrs<TopKAttrs>().axis}); }
void reverse(RuleMaker& m) { m.same(0, m.attrs<AxesAttrs>().axes); }
void all_dims(RuleMaker& m) { m.same(0, {}); }
void first_dim(RuleMaker& m) { m.same(0, axes_from(1, m.in(0).size())); }
void trilu(RuleMaker& m) { m.same(0, axes_from(static_cast<int64_t>(m.in(0).size()) - 2, m.in(0).size())); }
void norm(RuleMaker& m) { m.same(0, axes_from(m.attrs<NormAttrs>().axis, m.in(0).size())); }

void concat(RuleMaker& m) {
  const int64_t axis = m.attrs<AxisAttrs>().axis;
  for (size_t d = 0; d < m.out().size(); ++d) {
    if (static_cast<int64_t>(d) == axis) continue;
    const size_t f = m.factor(m.out()[d]);
    m.result(d, f);
    for (size_t i = 0; i < m.rule.operands.size(); ++i) m.operand(i, d, f);
  }
}

void pad(RuleMaker& m) {
  const auto& a = m.attrs<PadAttrs>();
  std::vector<int64_t> padded;
  for (size_t d = 0; d < a.before.size(); ++d)
    if (a.before[d] != Dim(0) || a.after[d] != Dim(0)) padded.push_back(static_cast<int64_t>(d));
  m.same(0, padded);
}

void tile(RuleMaker& m) {
  std::vector<int64_t> repeated;
  const auto& times = m.attrs<DimsAttrs>().dims;
  for (size_t d = 0; d < times.size(); ++d)
    if (times[d] != Dim(1)) repeated.push_back(static_cast<int64_t>(d));
  m.same(0, repeated);
}

void resize(RuleMaker& m) {
  const auto& a = m.attrs<ResizeAttrs>();
  std::vector<int64_t> scaled;
  for (size_t d = 0; d < a.sizes.size(); ++d)
    if (a.sizes[d] != m.in(0)[d] || (!a.scales.empty() && a.scales[d] != 1) || a.coord == CoordMode::TfCropAndResize)
      scaled.push_back(static_cast<int64_t>(d));
  m.same(0, scaled);
}

void one_hot(RuleMaker& m) {
  const auto axis = static_cast<size_t>(m.attrs<OneHotAttrs>().axis);
  for (size_t d = 0; d < m.in(0).size(); ++d) {
    const size_t f = m.factor(m.in(0)[d]);
    m.operand(0, d, f);
    m.result(d < axis ? d : d + 1, f);
  }
}

void gather(RuleMaker& m) {
  const auto axis = static_cast<size_t>(m.attrs<AxisAttrs>().axis);
  const auto x = m.in(0), index = m.in(1);
  for (size_t d = 0; d < x.size(); ++d) {
    if (d == axis) {
      m.operand(0, d, m.factor(x[d], Factor::Kind::Lookup));
      continue;
    }
    const size_t f = m.factor(x[d]);
    m.operand(0, d, f);
    m.result(d < axis ? d : d - 1 + index.size(), f);
  }
  for (size_t d = 0; d < index.size(); ++d) {
    const size_t f = m.factor(index[d]);
    m.operand(1, d, f);
    m.result(axis + d, f);
  }
}

void gather_elements(RuleMaker& m) {
  const auto axis = static_cast<size_t>(m.attrs<AxisAttrs>().axis);
  for (size_t d = 0; d < m.out().size(); ++d) {
    if (d == axis || m.in(0)[d] != m.in(1)[d]) continue;
    const size_t f = m.factor(m.out()[d]);
    m.operand(0, d, f);
    m.operand(1, d, f);
    m.result(d, f);
  }
}

std::optional<ReduceOp> combined_by(ReduceOp op, DType t) {
  switch (op) {
    case ReduceOp::Sum:
    case ReduceOp::L1:
    case ReduceOp::SumSquare: return ReduceOp::Sum;
    case ReduceOp::Mean: return is_float(t) ? std::optional(ReduceOp::Mean) : std::nullopt;
    case ReduceOp::Max:
    case ReduceOp::Min: return op;
    default: return std::nullopt;
  }
}

void reduce(RuleMaker& m) {
  const auto& a = m.attrs<ReduceAttrs>();
  const DType t = m.g.dtype(m.g.result(m.n));
  const auto combine = is_float(t) || is_integer(t) ? combined_by(a.op, t) : std::nullopt;
  size_t to = 0;
  for (size_t d = 0; d < m.in(0).size(); ++d) {
    const bool reduced = std::ranges::find(a.axes, static_cast<int64_t>(d)) != a.axes.end();
    if (!reduced) {
      const size_t f = m.factor(m.in(0)[d]);
      m.operand(0, d, f);
      m.result(to, f);
    } else if (combine) {
      m.operand(0, d, m.factor(m.in(0)[d], Factor::Kind::Reduce, *combine));
    }
    to += !reduced || a.keep_dim;
  }
}

void arg_reduce(RuleMaker& m) {
  const auto& a = m.attrs<ArgAttrs>();
  for (size_t d = 0; d < m.in(0).size(); ++d) {
    if (static_cast<int64_t>(d) == a.axis) continue;
    const size_t f = m.factor(m.in(0)[d]);
    m.operand(0, d, f);
    m.result(d - (!a.keep_dim && static_cast<int64_t>(d) > a.axis), f);
  }
}

void matmul(RuleMaker& m) {
  const auto& a = m.attrs<MatMulAttrs>();
  const auto x = m.in(0), w = m.in(1), y = m.out();
  if (x.size() < 2 || w.size() < 2) return;
  for (size_t d = 0; d + 2 < y.size(); ++d) {
    const size_t f = m.factor(y[d]);
    m.result(d, f);
    m.aligned(0, d, y.size(), f, y[d]);
    m.aligned(1, d, y.size(), f, y[d]);
  }
  const size_t rows = m.factor(y[y.size() - 2]), columns = m.factor(y[y.size() - 1]);
  const size_t terms = m.factor(x[x.size() - (a.trans_a ? 2 : 1)], Factor::Kind::Reduce);
  m.result(y.size() - 2, rows);
  m.result(y.size() - 1, columns);
  m.operand(0, x.size() - (a.trans_a ? 1 : 2), rows);
  m.operand(0, x.size() - (a.trans_a ? 2 : 1), terms);
  m.operand(1, w.size() - (a.trans_b ? 1 : 2), terms);
  m.operand(1, w.size() - (a.trans_b ? 2 : 1), columns);
}

void grouped_matmul(RuleMaker& m) {
  const auto& a = m.attrs<MatMulAttrs>();
  if (a.trans_a || m.in(0).size() != 2 || m.in(1).size() != 3 || m.out().size() != 2 || m.in(2).size() != 1) return;
  const size_t rows = m.factor(m.out()[0]), columns = m.factor(m.out()[1]);
  const size_t terms = m.factor(m.in(0)[1], Factor::Kind::Reduce);
  m.operand(0, 0, rows);
  m.operand(2, 0, rows);
  m.result(0, rows);
  m.operand(1, a.trans_b ? 1 : 2, columns);
  m.result(1, columns);
  m.operand(0, 1, terms);
  m.operand(1, a.trans_b ? 2 : 1, terms);
  m.operand(1, 0, m.factor(m.in(1)[0], Factor::Kind::Lookup));
}

void dot_general(RuleMaker& m) {
  const auto& a = m.attrs<DotGeneralAttrs>();
  size_t to = 0;
  std::vector<bool> lhs(m.in(0).size()), rhs(m.in(1).size());
  const auto both = [&](const std::vector<int64_t>& left, const std::vector<int64_t>& right, bool batch) {
    for (size_t k = 0; k < left.size(); ++k) {
      const auto x = static_cast<size_t>(left[k]), w = static_cast<size_t>(right[k]);
      const size_t f = m.factor(m.in(0)[x], batch ? Factor::Kind::Map : Factor::Kind::Reduce);
      m.operand(0, x, f);
      m.operand(1, w, f);
      if (batch) m.result(to++, f);
      lhs[x] = rhs[w] = true;
    }
  };
  both(a.lhs_batch, a.rhs_batch, true);
  both(a.lhs_contracting, a.rhs_contracting, false);
  for (size_t i = 0; i < 2; ++i)
    for (size_t d = 0; d < m.in(i).size(); ++d) {
      if ((i == 0 ? lhs : rhs)[d]) continue;
      const size_t f = m.factor(m.in(i)[d]);
      m.operand(i, d, f);
      m.result(to++, f);
    }
}

// Spatial dim `d` of the operand, over which a window of `extent` rows moves.
void window(RuleMaker& m, size_t d, int64_t extent, int64_t stride, int64_t padding) {
  const Dim rows = m.in(0)[d], positions = m.out()[d];
  if (!rows.is_static() || !positions.is_static() || positions.size() > rows.size()) return;
  if (rows.size() != positions.size() * stride) return;
  const size_t f = m.factor(positions, Factor::Kind::Window);
  if (f == RuleMaker::kNone) return;
  Factor& factor = m.rule.factors[f];
  factor.stride = stride;
  factor.before = padding;
  factor.after = extent - stride - padding;
  m.operand(0, d, f);
  m.result(d, f);
}

void conv(RuleMaker& m) {
  const auto& a = m.attrs<ConvAttrs>();
  const size_t samples = m.factor(m.in(0)[0]);
  m.operand(0, 0, samples);
  m.result(0, samples);
  for (size_t k = 0; k < a.strides.size(); ++k)
    if (const Dim taps = m.in(1)[k + 2]; taps.is_static())
      window(m, k + 2, (taps.size() - 1) * a.dilations[k] + 1, a.strides[k], a.pads_begin[k]);
  if (a.groups == 1) {
    const size_t columns = m.factor(m.out()[1]);
    m.operand(1, 0, columns);
    m.operand(2, 0, columns);
    m.result(1, columns);
    if (m.has(2)) return;  // each device would add the bias
    const size_t terms = m.factor(m.in(0)[1], Factor::Kind::Reduce);
    m.operand(0, 1, terms);
    m.operand(1, 1, terms);
    return;
  }
  const size_t groups = m.factor(Dim(a.groups));
  if (groups == RuleMaker::kNone) return;
  m.operand(0, 1, groups);
  m.operand(1, 0, groups);
  m.operand(2, 0, groups);
  m.result(1, groups);
  m.rule.counted.push_back(groups);
}

void pool(RuleMaker& m) {
  const auto& a = m.attrs<PoolAttrs>();
  m.same(0, axes_from(2, m.in(0).size()));
  for (size_t k = 0; k < a.kernel.size(); ++k) {
    const bool pads = a.pads_begin[k] != 0 || a.pads_end[k] != 0;
    const bool sums = a.op == ReduceOp::Sum || (a.op == ReduceOp::Mean && (!pads || a.count_include_pad));
    const bool known = sums || (a.op == ReduceOp::Max && is_float(m.g.dtype(m.g.result(m.n))));
    if (known && !a.ceil_mode) window(m, k + 2, (a.kernel[k] - 1) * a.dilations[k] + 1, a.strides[k], a.pads_begin[k]);
  }
}

void batch_norm(RuleMaker& m) {
  const auto axis = static_cast<size_t>(m.attrs<NormAttrs>().axis);
  m.same(0, {});
  if (const auto& channels = m.rule.operands[0][axis]; !channels.empty())
    for (size_t i = 1; i < 5; ++i) m.operand(i, 0, channels[0].factor);
}

void group_norm(RuleMaker& m) {
  m.same(0, axes_from(1, m.in(0).size()));
  const size_t groups = m.factor(Dim(m.attrs<GroupNormAttrs>().groups));
  if (groups == RuleMaker::kNone) return;
  m.operand(0, 1, groups);
  m.operand(1, 0, groups);
  m.operand(2, 0, groups);
  m.result(1, groups);
  m.rule.counted.push_back(groups);
}

// Positions of batch, heads, rows in a layout. Packed: heads are the outer part of the last dim.
struct HeadDims {
  size_t batch = 0, heads, rows;
  explicit HeadDims(AttentionLayout l) : heads(l == AttentionLayout::BHSD ? 1 : 2), rows(l == AttentionLayout::BHSD ? 2 : 1) {}
};

void attention(RuleMaker& m) {
  const auto& a = m.attrs<AttentionAttrs>();
  const HeadDims in(a.layout), out(a.out_layout);
  const bool packed = a.layout == AttentionLayout::Packed;
  const int64_t kv_heads = a.num_kv_heads ? a.num_kv_heads : a.num_heads;
  const Dim shared = packed ? Dim(kv_heads) : m.in(1)[in.heads];  // every device needs whole groups of query heads
  const size_t batch = m.factor(m.in(0)[0]), heads = m.factor(shared);
  // Masks by position need all rows.
  const bool by_row = a.mask == MaskKind::None || a.mask == MaskKind::Custom || a.mask == MaskKind::Bias;
  const size_t rows = by_row ? m.factor(m.in(0)[in.rows]) : RuleMaker::kNone;
  for (size_t i = 0; i < 3; ++i) {
    m.operand(i, 0, batch);
    m.operand(i, in.heads, heads);
  }
  m.operand(0, in.rows, rows);
  m.result(0, batch);
  m.result(out.heads, heads);
  m.result(out.rows, rows);
  if (m.has(3)) {
    const Dim all_heads = packed ? Dim(a.num_heads) : m.in(0)[in.heads];
    m.aligned(3, 0, 4, batch, m.in(0)[0]);
    m.aligned(3, 1, 4, heads, all_heads);
    m.aligned(3, 2, 4, rows, m.in(0)[in.rows]);
  }
  if (heads != RuleMaker::kNone) m.rule.counted.push_back(heads);
}

void rope(RuleMaker& m) {
  const auto& a = m.attrs<RopeAttrs>();
  const HeadDims at(a.layout);
  const auto x = m.in(0);
  if (x.size() != (a.layout == AttentionLayout::Packed ? 3U : 4U) || m.has(3)) return;
  // Tables with a batch are read by batch.
  const auto has_batch = [&](size_t i) { return m.in(i).size() > 2 && m.in(i)[0] != Dim(1); };
  if (!has_batch(1) && !has_batch(2)) {
    const size_t batch = m.factor(x[0]);
    m.operand(0, 0, batch);
    m.result(0, batch);
  }
  Dim heads = x[at.heads];
  if (a.layout == AttentionLayout::Packed) heads = heads.is_static() && a.head_dim > 0 ? Dim(heads.size() / a.head_dim) : Dim(1);
  const size_t f = m.factor(heads);
  m.operand(0, at.heads, f);
  m.result(at.heads, f);
}

void selective_scan(RuleMaker& m) {
  if (m.in(0).size() != 3 || m.in(2).size() != 2) return;
  const size_t batch = m.factor(m.in(0)[0]), hidden = m.factor(m.in(0)[2]);
  for (size_t i : {0, 1, 3, 4}) m.operand(i, 0, batch);
  m.result(0, batch);
  m.operand(0, 2, hidden);
  m.operand(1, 2, hidden);
  m.operand(2, 0, hidden);
  m.result(2, hidden);
}

// One scale, or one per index of an axis. Blocks need the whole axis.
void quantize(RuleMaker& m) {
  const auto& a = m.attrs<QuantAttrs>();
  const auto axis = static_cast<size_t>(a.axis);
  const auto rank_of = [&](size_t i) { return m.has(i) ? m.in(i).size() : 0; };
  const bool per_axis = rank_of(1) == 1 && axis < m.in(0).size() && m.in(1)[0] == m.in(0)[axis];
  if (a.block != 0 || (rank_of(1) != 0 && !per_axis)) return;
  m.same(0, {});
  if (!per_axis || m.rule.operands[0][axis].empty()) return;
  const size_t f = m.rule.operands[0][axis][0].factor;
  m.operand(1, 0, f);
  if (rank_of(2) == 1 && m.in(2)[0] == m.in(0)[axis]) m.operand(2, 0, f);
}

// Dims that the devices of a group do not cut or join.
void whole_dims(RuleMaker& m) {
  const auto& a = m.attrs<CollectiveAttrs>();
  const OpKind op = m.g.op(m.n);
  if (op == OpKind::AllReduce || op == OpKind::CollectivePermute) m.same(0, {});
  else if (op == OpKind::AllToAll) m.same(0, {a.axis, a.to});
  else m.same(0, {a.axis});
}

using MakeRule = void (*)(RuleMaker&);
struct RuleRow {
  OpKind op;
  MakeRule make;
};
// Elementwise kinds follow from their trait.
constexpr RuleRow kRules[] = {
    {OpKind::Reshape, reshape},
    {OpKind::Transpose, transpose},
    {OpKind::Narrow, narrow},
    {OpKind::Slice, slice},
    {OpKind::Concat, concat},
    {OpKind::Expand, expand},
    {OpKind::Gather, gather},
    {OpKind::GatherElements, gather_elements},
    {OpKind::Pad, pad},
    {OpKind::Reverse, reverse},
    {OpKind::Tile, tile},
    {OpKind::Trilu, trilu},
    {OpKind::OneHot, one_hot},
    {OpKind::Resize, resize},
    {OpKind::BitCast, all_dims},
    {OpKind::MatMul, matmul},
    {OpKind::GroupedMatMul, grouped_matmul},
    {OpKind::DotGeneral, dot_general},
    {OpKind::Reduce, reduce},
    {OpKind::ArgReduce, arg_reduce},
    {OpKind::Cumsum, cumulative},
    {OpKind::Cumprod, cumulative},
    {OpKind::TopK, topk},
    {OpKind::Softmax, all_but_axis},
    {OpKind::LogSoftmax, all_but_axis},
    {OpKind::LayerNorm, norm},
    {OpKind::RmsNorm, norm},
    {OpKind::GroupNorm, group_norm},
    {OpKind::BatchNormInference, batch_norm},
    {OpKind::Lrn, first_dim},
    {OpKind::Attention, attention},
    {OpKind::Rope, rope},
    {OpKind::Conv, conv},
    {OpKind::Pool, pool},
    {OpKind::SelectiveScan, selective_scan},
    {OpKind::Quantize, quantize},
    {OpKind::Dequantize, quantize},
    {OpKind::AllReduce, whole_dims},
    {OpKind::AllGather, whole_dims},
    {OpKind::ReduceScatter, whole_dims},
    {OpKind::AllToAll, whole_dims},
    {OpKind::CollectivePermute, whole_dims},
    {OpKind::DeviceSlice, whole_dims},
};

// Rows of a dim for one of the factor.
int64_t rows_of_one(const Rule& rule, const DimFactor& f, Dim size) {
  return std::max<int64_t>(size.size() / (f.blocks * rule.factors[f.factor].size), 1);
}

}  // namespace

bool Factor::divides(int64_t parts, const DimSharding& s) const {
  if ((size + s.padding) % (parts * s.blocks) != 0 || (s.padding > 0 && s.blocks > 1)) return false;
  const int64_t rows = size / parts * stride;
  return kind != Kind::Window ||
         (s.blocks == 1 && s.padding == 0 && before <= rows && after <= rows && rows + before + after > 0);
}

const DimFactor* split_factor(const Rule& rule, const std::vector<DimFactor>& dim, Dim size, const DimSharding& s,
                              DimSharding* of_factor) {
  const DimFactor* best = nullptr;
  for (const DimFactor& f : dim)
    if (s.split() && s.blocks % f.blocks == 0 && (!best || f.blocks > best->blocks)) best = &f;
  if (!best || !size.is_static()) return nullptr;
  const int64_t rows = rows_of_one(rule, *best, size);
  if (s.padding % rows != 0 || (s.padding > 0 && best->blocks > 1)) return nullptr;
  *of_factor = {s.axes, s.blocks / best->blocks, s.padding / rows};
  return best;
}

DimSharding split_dim(const Rule& rule, const DimFactor& f, Dim size, const DimSharding& s) {
  return {s.axes, s.blocks * f.blocks, s.padding > 0 && size.is_static() ? s.padding * rows_of_one(rule, f, size) : 0};
}

Rule rule_of(const Graph& g, NodeId n) {
  const OpKind op = g.op(n);
  const auto row = std::ranges::find(kRules, op, &RuleRow::op);
  const MakeRule make = has_trait(op, kElementwise) ? elementwise : row == std::end(kRules) ? nullptr : row->make;
  for (ValueId v : g.operands(n))
    if (v.valid() && g.type(v).kind != TypeKind::Tensor) return {};
  for (size_t r = 0; r < g.result_count(n); ++r)
    if (g.type(g.result(n, r)).kind != TypeKind::Tensor) return {};
  if (!make || g.result_count(n) == 0) return {};
  RuleMaker m(g, n);
  make(m);
  return std::move(m.rule);
}

}  // namespace rlxc::shard
