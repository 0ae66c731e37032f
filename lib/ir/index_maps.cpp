#include "ir/index_maps.h"

#include <algorithm>
#include <numeric>

#include "ir/region.h"

namespace rlxc {
namespace index_rules {

// Makes the maps of one node.
class Maker {
 public:
  Maker(const Graph& graph, NodeId node) : g(graph), n(node) {
    for (ValueId v : g.operands(n)) maps.operands.emplace_back(v.valid() ? static_cast<size_t>(g.rank(v)) : 0);
    for (size_t r = 0; r < g.result_count(n); ++r) maps.results.emplace_back(static_cast<size_t>(g.rank(g.result(n, r))));
  }

  template <class A>
  const A& attrs() const {
    return g.attrs<A>(n);
  }
  bool has(size_t i) const { return g.operand(n, i).valid(); }
  std::span<const Dim> in(size_t i) const { return g.dims(g.operand(n, i)); }
  std::span<const Dim> out(size_t r = 0) const { return g.dims(g.result(n, r)); }
  size_t count() const { return maps.operands.size(); }
  bool is_one(size_t i) const { return num_elements(g.type(g.operand(n, i))) == 1; }

  // A loop over a dim; kNone if it is symbolic or has less than two elements.
  static constexpr size_t kNone = ~size_t{0};
  size_t loop(Dim size, Loop::Kind kind = Loop::Kind::Parallel, ReduceOp op = ReduceOp::Sum) {
    if (!size.is_static() || size.size() < 2) return kNone;
    maps.loops.push_back({size.size(), kind, op});
    return maps.loops.size() - 1;
  }
  // The loop walks over the dim, with as many elements for each iteration as it has.
  void operand(size_t i, size_t dim, size_t l, int64_t blocks = 1) {
    if (l != kNone && has(i)) maps.operands[i][dim].push_back(tile(in(i)[dim], l, blocks));
  }
  void result(size_t dim, size_t l, int64_t blocks = 1, size_t r = 0) {
    if (l != kNone) maps.results[r][dim].push_back(tile(out(r)[dim], l, blocks));
  }
  void results(size_t dim, size_t l) {
    for (size_t r = 0; r < maps.results.size(); ++r) result(dim, l, 1, r);
  }
  // The loop reads windows of operand 0.
  void window(size_t dim, size_t l, int64_t stride, int64_t before, int64_t reach) {
    if (l != kNone) maps.operands[0][dim].push_back({l, 1, stride, before, reach});
  }

  // Dim `d` of a shape of this rank, in an operand that broadcasts to it.
  void aligned(size_t i, size_t d, size_t rank, size_t l, Dim size) {
    if (!has(i) || in(i).size() + d < rank) return;
    const size_t at = in(i).size() + d - rank;
    if (in(i)[at] == size) operand(i, at, l);
  }
  // Some dims of a shape to which all results have equal dims, and those of the operands that broadcast to it.
  void broadcast(std::span<const Dim> shape, size_t first, size_t last, const auto& has_loop) {
    for (size_t d = 0; d < shape.size(); ++d) {
      if (!has_loop(d)) continue;
      const size_t l = loop(shape[d]);
      results(d, l);
      for (size_t i = first; i < last; ++i) aligned(i, d, shape.size(), l, shape[d]);
    }
  }
  // Operands from `first` on broadcast to the result, the loops of which are known.
  void epilogue(size_t first) {
    for (size_t d = 0; d < out().size(); ++d)
      for (const LoopIndex& index : maps.results[0][d])
        for (size_t i = first; i < count(); ++i) aligned(i, d, out().size(), index.loop, out()[d]);
  }
  // Equal dims of operand 0 and all results, but not `excluded`.
  void same(const std::vector<int64_t>& excluded) {
    for (size_t d = 0; d < in(0).size(); ++d) {
      if (std::ranges::find(excluded, static_cast<int64_t>(d)) != excluded.end()) continue;
      const size_t l = loop(in(0)[d]);
      operand(0, d, l);
      for (size_t r = 0; r < maps.results.size(); ++r)
        if (d < out(r).size() && out(r)[d] == in(0)[d]) result(d, l, 1, r);
    }
  }

  const Graph& g;
  const NodeId n;
  IndexMaps maps;

 private:
  LoopIndex tile(Dim size, size_t l, int64_t blocks) const {
    const int64_t each = size.is_static() ? std::max<int64_t>(size.size() / (blocks * maps.loops[l].size), 1) : 1;
    return {l, blocks, each, 0, each};
  }
};

namespace {

constexpr auto kAll = [](size_t) { return true; };

std::vector<int64_t> axes_from(int64_t axis, size_t rank) {
  std::vector<int64_t> out;
  for (int64_t a = axis; a < static_cast<int64_t>(rank); ++a) out.push_back(a);
  return out;
}

bool contains(const std::vector<int64_t>& axes, size_t axis) {
  return std::ranges::find(axes, static_cast<int64_t>(axis)) != axes.end();
}

}  // namespace

void whole(Maker&) {}
void elementwise(Maker& m) { m.broadcast(m.out(), 0, m.count(), kAll); }

// Movement.

void transpose(Maker& m) {
  const auto& perm = m.attrs<PermAttrs>().perm;
  for (size_t d = 0; d < perm.size(); ++d) {
    const size_t l = m.loop(m.out()[d]);
    m.operand(0, static_cast<size_t>(perm[d]), l);
    m.result(d, l);
  }
}

namespace {

// The dims that a dim is split into, or that are merged into one.
void split_or_merge(Maker& m, bool one_is_operand, size_t one, size_t first, size_t last) {
  const auto many = one_is_operand ? m.out() : m.in(0);
  int64_t before = 1;
  for (size_t d = first; d < last; ++d) {
    const size_t l = m.loop(many[d]);
    m.operand(0, one_is_operand ? one : d, l, one_is_operand ? before : 1);
    m.result(one_is_operand ? d : one, l, one_is_operand ? 1 : before);
    before *= many[d].size();
  }
}

}  // namespace

void reshape(Maker& m) {
  const auto a = m.in(0), b = m.out();
  size_t i = 0, j = 0, a_end = a.size(), b_end = b.size();
  const auto pair = [&](size_t x, size_t y) {
    const size_t l = m.loop(a[x]);
    m.operand(0, x, l);
    m.result(y, l);
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
      const size_t l = m.loop(Dim(common));
      m.operand(0, a_first, l);
      m.result(b_first, l);
    }
  }
}

void narrow(Maker& m) {
  const auto& a = m.attrs<NarrowAttrs>();
  const auto axis = static_cast<size_t>(a.axis);
  m.same({a.axis});
  // One whole block of several.
  const Dim size = m.in(0)[axis];
  if (!size.is_static() || !a.start.is_static() || !a.len.is_static() || a.len.size() < 2) return;
  if (size.size() % a.len.size() != 0 || a.start.size() % a.len.size() != 0) return;
  const size_t l = m.loop(a.len);
  m.operand(0, axis, l, size.size() / a.len.size());
  m.result(axis, l);
}

void along_axis(Maker& m) { m.same({m.attrs<AxisAttrs>().axis}); }
void slice(Maker& m) { m.same({m.attrs<SliceAttrs>().axis}); }
void cumulative(Maker& m) { m.same({m.attrs<CumAttrs>().axis}); }
void topk(Maker& m) { m.same({m.attrs<TopKAttrs>().axis}); }
void reverse(Maker& m) { m.same(m.attrs<AxesAttrs>().axes); }
void same_dims(Maker& m) { m.same({}); }
void matrices(Maker& m) { m.same(axes_from(static_cast<int64_t>(m.in(0).size()) - 2, m.in(0).size())); }

void concat(Maker& m) {
  const auto axis = static_cast<size_t>(m.attrs<AxisAttrs>().axis);
  for (size_t d = 0; d < m.out().size(); ++d) {
    if (d == axis) continue;
    const size_t l = m.loop(m.out()[d]);
    m.result(d, l);
    for (size_t i = 0; i < m.count(); ++i) m.operand(i, d, l);
  }
}

void pad(Maker& m) {
  const auto& a = m.attrs<PadAttrs>();
  std::vector<int64_t> padded;
  for (size_t d = 0; d < a.before.size(); ++d)
    if (a.before[d] != Dim(0) || a.after[d] != Dim(0)) padded.push_back(static_cast<int64_t>(d));
  m.same(padded);
  for (const int64_t axis : padded) {
    const auto d = static_cast<size_t>(axis);
    const auto extends = [](Dim size) { return size.is_static() && size.size() >= 0; };
    if (a.mode != PadMode::Constant || !extends(a.before[d]) || !extends(a.after[d])) continue;
    const size_t l = m.loop(m.out()[d]);
    m.window(d, l, 1, a.before[d].size(), 1);
    m.result(d, l);
  }
}

void tile(Maker& m) {
  std::vector<int64_t> repeated;
  const auto& times = m.attrs<DimsAttrs>().dims;
  for (size_t d = 0; d < times.size(); ++d)
    if (times[d] != Dim(1)) repeated.push_back(static_cast<int64_t>(d));
  m.same(repeated);
}

// A dim that grows by a whole factor has that many rows for each row of the operand, which reads some on both sides.
void resize(Maker& m) {
  const auto& a = m.attrs<ResizeAttrs>();
  const bool moves = a.coord == CoordMode::TfCropAndResize;
  std::vector<int64_t> scaled;
  for (size_t d = 0; d < a.sizes.size(); ++d)
    if (a.sizes[d] != m.in(0)[d] || (!a.scales.empty() && a.scales[d] != 1) || moves) scaled.push_back(static_cast<int64_t>(d));
  m.same(scaled);
  const bool repeats =
      a.coord == CoordMode::HalfPixel || a.coord == CoordMode::PytorchHalfPixel || a.coord == CoordMode::Asymmetric;
  for (const int64_t axis : scaled) {
    const auto d = static_cast<size_t>(axis);
    const Dim from = m.in(0)[d], to = m.out()[d];
    if (!repeats || !from.is_static() || !to.is_static() || from.size() < 2 || to.size() % from.size() != 0) continue;
    if (!a.scales.empty() && a.scales[d] != static_cast<double>(to.size() / from.size())) continue;
    const int64_t around = a.mode == ResizeMode::Cubic ? 2 : 1;
    const size_t l = m.loop(from);
    m.window(d, l, 1, around, 2 * around + 1);
    m.result(d, l);
  }
}

void one_hot(Maker& m) {
  const auto axis = static_cast<size_t>(m.attrs<OneHotAttrs>().axis);
  for (size_t d = 0; d < m.in(0).size(); ++d) {
    const size_t l = m.loop(m.in(0)[d]);
    m.operand(0, d, l);
    m.result(d < axis ? d : d + 1, l);
  }
}

void gather(Maker& m) {
  const auto axis = static_cast<size_t>(m.attrs<AxisAttrs>().axis);
  const auto x = m.in(0), index = m.in(1);
  for (size_t d = 0; d < x.size(); ++d) {
    if (d == axis) {
      m.operand(0, d, m.loop(x[d], Loop::Kind::Lookup));
      continue;
    }
    const size_t l = m.loop(x[d]);
    m.operand(0, d, l);
    m.result(d < axis ? d : d - 1 + index.size(), l);
  }
  for (size_t d = 0; d < index.size(); ++d) {
    const size_t l = m.loop(index[d]);
    m.operand(1, d, l);
    m.result(axis + d, l);
  }
}

void gather_elements(Maker& m) {
  const auto axis = static_cast<size_t>(m.attrs<AxisAttrs>().axis);
  for (size_t d = 0; d < m.out().size(); ++d) {
    if (d == axis || m.in(0)[d] != m.in(1)[d]) continue;
    const size_t l = m.loop(m.out()[d]);
    m.operand(0, d, l);
    m.operand(1, d, l);
    m.result(d, l);
  }
}

// Dims that the devices of a group do not cut or join.
void collective(Maker& m) {
  const auto& a = m.attrs<CollectiveAttrs>();
  const OpKind op = m.g.op(m.n);
  if (op == OpKind::AllReduce || op == OpKind::CollectivePermute) m.same({});
  else if (op == OpKind::AllToAll) m.same({a.axis, a.to});
  else m.same({a.axis});
}

// Reductions and norms.

namespace {

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

}  // namespace

void reduce(Maker& m) {
  const auto& a = m.attrs<ReduceAttrs>();
  const DType t = m.g.dtype(m.g.result(m.n));
  const auto combine = is_float(t) || is_integer(t) ? combined_by(a.op, t) : std::nullopt;
  size_t to = 0;
  for (size_t d = 0; d < m.in(0).size(); ++d) {
    const bool reduced = contains(a.axes, d);
    if (!reduced) {
      const size_t l = m.loop(m.in(0)[d]);
      m.operand(0, d, l);
      m.result(to, l);
    } else if (combine) {
      m.operand(0, d, m.loop(m.in(0)[d], Loop::Kind::Reduce, *combine));
    }
    to += !reduced || a.keep_dim;
  }
}

void arg_reduce(Maker& m) {
  const auto& a = m.attrs<ArgAttrs>();
  for (size_t d = 0; d < m.in(0).size(); ++d) {
    if (static_cast<int64_t>(d) == a.axis) continue;
    const size_t l = m.loop(m.in(0)[d]);
    m.operand(0, d, l);
    m.result(d - (!a.keep_dim && static_cast<int64_t>(d) > a.axis), l);
  }
}

void fft(Maker& m) { m.same({m.attrs<FftAttrs>().axis, static_cast<int64_t>(m.in(0).size()) - 1}); }
void norm(Maker& m) { m.same(axes_from(m.attrs<NormAttrs>().axis, m.in(0).size())); }
void lrn(Maker& m) { m.same({1}); }

// x, residual and bias; gamma and beta belong to the normalised axes.
void residual_norm(Maker& m) {
  const auto axis = static_cast<size_t>(m.attrs<NormAttrs>().axis);
  m.broadcast(m.out(), 0, std::min<size_t>(m.count(), 3), [&](size_t d) { return d < axis; });
}

void norm_region(Maker& m) {
  const auto& a = m.attrs<FusionAttrs>();
  const RegionStep& norm = a.steps[last_norm_step(a.steps)];
  const auto axis = static_cast<size_t>(norm.op == OpKind::GroupNorm ? 1 : norm_axis(norm));
  m.broadcast(m.out(), 0, m.count(), [&](size_t d) { return d < axis; });
}

void reduce_region(Maker& m) {
  const std::vector<int64_t>& axes = reduced_axes(m.attrs<FusionAttrs>().steps);
  m.broadcast(whole_dims(m.g, m.n), 0, m.count(), [&](size_t d) { return !contains(axes, d); });
}

void concat_region(Maker& m) {
  const auto axis = static_cast<size_t>(m.attrs<ConcatRegionAttrs>().axis);
  m.broadcast(m.out(), 0, m.count(), [&](size_t d) { return d != axis; });
}

void batch_norm(Maker& m) {
  m.same({});
  const auto axis = static_cast<size_t>(m.attrs<NormAttrs>().axis);
  if (const auto& channels = m.maps.operands[0][axis]; !channels.empty())
    for (size_t i = 1; i < 5; ++i) m.operand(i, 0, channels[0].loop);
}

void group_norm(Maker& m) {
  m.same(axes_from(1, m.in(0).size()));
  const size_t groups = m.loop(Dim(m.attrs<GroupNormAttrs>().groups));
  if (groups == Maker::kNone) return;
  for (size_t i = 0; i < 3; ++i) m.operand(i, i == 0, groups);
  m.result(1, groups);
  m.maps.counted.push_back(groups);
}

// Contractions.

namespace {

struct ProductLoops {
  size_t rows = Maker::kNone, columns = Maker::kNone;
};

// The right operand has `halves` blocks of the columns of the result. `sums`: products with parts of the terms add up to the
// result.
ProductLoops product(Maker& m, bool trans_a, bool trans_b, bool sums, int64_t halves = 1) {
  const auto x = m.in(0), w = m.in(1), y = m.out();
  if (x.size() < 2 || w.size() < 2) return {};
  for (size_t d = 0; d + 2 < y.size(); ++d) {
    const size_t l = m.loop(y[d]);
    m.result(d, l);
    m.aligned(0, d, y.size(), l, y[d]);
    m.aligned(1, d, y.size(), l, y[d]);
  }
  const ProductLoops loops{m.loop(y[y.size() - 2]), m.loop(y[y.size() - 1])};
  const size_t terms = sums ? m.loop(x[x.size() - (trans_a ? 2 : 1)], Loop::Kind::Reduce) : Maker::kNone;
  m.result(y.size() - 2, loops.rows);
  m.result(y.size() - 1, loops.columns);
  m.operand(0, x.size() - (trans_a ? 1 : 2), loops.rows);
  m.operand(0, x.size() - (trans_a ? 2 : 1), terms);
  m.operand(1, w.size() - (trans_b ? 1 : 2), terms);
  m.operand(1, w.size() - (trans_b ? 2 : 1), loops.columns, halves);
  return loops;
}

// An operand with one number, or one for each column of the right operand, along `dim`.
void by_column(Maker& m, size_t i, size_t dim, Dim columns, size_t l, int64_t halves) {
  if (m.has(i) && dim < m.in(i).size() && m.in(i)[dim] == columns) m.operand(i, dim, l, halves);
}

}  // namespace

void matmul(Maker& m) {
  const auto& a = m.attrs<MatMulAttrs>();
  product(m, a.trans_a, a.trans_b, true);
}

void fused_matmul(Maker& m) {
  const auto& a = m.attrs<FusedMatMulAttrs>();
  product(m, a.trans_a, a.trans_b, false);
  m.epilogue(2);
}

void gated_matmul(Maker& m) {
  const auto loops = product(m, false, m.attrs<GatedMatMulAttrs>().trans_b, false, 2);
  by_column(m, 2, 0, m.in(1)[!m.attrs<GatedMatMulAttrs>().trans_b], loops.columns, 2);
}

void swiglu(Maker& m) {
  const size_t last = m.in(0).size() - 1;
  m.same({static_cast<int64_t>(last)});
  const size_t l = m.loop(m.out()[last]);
  m.operand(0, last, l, 2);
  m.result(last, l);
}

// The scale and the zero point have the axes of the weight.
void dequant_matmul(Maker& m) {
  const auto& a = m.attrs<DequantMatMulAttrs>();
  const int64_t halves = a.gated ? 2 : 1;
  const auto loops = product(m, false, a.trans_b, false, halves);
  const Dim columns = m.in(1)[!a.trans_b];
  for (const size_t i : {2, 3}) by_column(m, i, !a.trans_b, columns, loops.columns, halves);
  if (a.gated) by_column(m, 4, 0, columns, loops.columns, halves);
  else m.epilogue(4);
}

namespace {

// Zero points: one, one for each row ([M] or [...,M,1]), and one for each column.
void integer_product(Maker& m, int64_t halves) {
  const auto loops = product(m, false, false, false, halves);
  const size_t rank = m.out().size();
  if (m.has(2) && rank > 1) {
    if (m.in(2).size() == 1) by_column(m, 2, 0, m.out()[rank - 2], loops.rows, 1);
    for (size_t d = 0; d + 1 < rank; ++d)
      for (const LoopIndex& index : m.maps.results[0][d]) m.aligned(2, d, rank, index.loop, m.out()[d]);
  }
  if (!m.has(3) || rank < 2) return;
  for (size_t d = 0; d + 2 < rank; ++d)
    for (const LoopIndex& index : m.maps.results[0][d]) m.aligned(3, d, rank, index.loop, m.out()[d]);
  if (!m.in(3).empty()) by_column(m, 3, m.in(3).size() - 1, m.in(1).back(), loops.columns, halves);
}

}  // namespace

void q_matmul(Maker& m) { integer_product(m, 1); }

void fused_q_matmul(Maker& m) {
  integer_product(m, has_two_sums(m.attrs<FusionAttrs>().steps) ? 2 : 1);
  m.epilogue(kQuantOperands);
  for (size_t r = 1; r < m.maps.results.size(); ++r) m.maps.results[r] = m.maps.results[0];
}

// Keys and values may be repeated along batch axes. Operands of the steps broadcast to the scores or to the result, which differ
// in the last axis.
void q_attention(Maker& m) {
  const size_t rank = m.out().size();
  for (size_t d = 0; d + 1 < rank; ++d) {
    const size_t l = m.loop(m.out()[d]);
    m.result(d, l);
    m.operand(0, d, l);
    const bool batch = d + 2 < rank;
    for (size_t i = 1; i < m.count(); ++i)
      if (i >= kAttentionOperands || (batch && i < 3)) m.aligned(i, d, rank, l, m.out()[d]);
  }
}

void grouped_matmul(Maker& m) {
  const auto& a = m.attrs<MatMulAttrs>();
  if (a.trans_a || m.in(0).size() != 2 || m.in(1).size() != 3 || m.out().size() != 2 || m.in(2).size() != 1) return;
  const size_t rows = m.loop(m.out()[0]), columns = m.loop(m.out()[1]);
  const size_t terms = m.loop(m.in(0)[1], Loop::Kind::Reduce);
  m.operand(0, 0, rows);
  m.operand(2, 0, rows);
  m.result(0, rows);
  m.operand(1, a.trans_b ? 1 : 2, columns);
  m.result(1, columns);
  m.operand(0, 1, terms);
  m.operand(1, a.trans_b ? 2 : 1, terms);
  m.operand(1, 0, m.loop(m.in(1)[0], Loop::Kind::Lookup));
}

void dot_general(Maker& m) {
  const auto& a = m.attrs<DotGeneralAttrs>();
  size_t to = 0;
  std::vector<bool> lhs(m.in(0).size()), rhs(m.in(1).size());
  const auto both = [&](const std::vector<int64_t>& left, const std::vector<int64_t>& right, bool batch) {
    for (size_t k = 0; k < left.size(); ++k) {
      const auto x = static_cast<size_t>(left[k]), w = static_cast<size_t>(right[k]);
      const size_t l = m.loop(m.in(0)[x], batch ? Loop::Kind::Parallel : Loop::Kind::Reduce);
      m.operand(0, x, l);
      m.operand(1, w, l);
      if (batch) m.result(to++, l);
      lhs[x] = rhs[w] = true;
    }
  };
  both(a.lhs_batch, a.rhs_batch, true);
  both(a.lhs_contracting, a.rhs_contracting, false);
  for (size_t i = 0; i < 2; ++i)
    for (size_t d = 0; d < m.in(i).size(); ++d) {
      if ((i == 0 ? lhs : rhs)[d]) continue;
      const size_t l = m.loop(m.in(i)[d]);
      m.operand(i, d, l);
      m.result(to++, l);
    }
}

// Convolutions. Operands up to `last` have one number for each output channel.

namespace {

void window(Maker& m, size_t d, int64_t extent, int64_t stride, int64_t padding) {
  if (!m.in(0)[d].is_static()) return;
  const size_t l = m.loop(m.out()[d]);
  m.window(d, l, stride, padding, extent);
  m.result(d, l);
}

void convolution(Maker& m, const ConvAttrs& a, bool sums, size_t last = 2) {
  const size_t samples = m.loop(m.in(0)[0]);
  m.operand(0, 0, samples);
  m.result(0, samples);
  for (size_t k = 0; k < a.strides.size(); ++k)
    if (const Dim taps = m.in(1)[k + 2]; taps.is_static())
      window(m, k + 2, (taps.size() - 1) * a.dilations[k] + 1, a.strides[k], a.pads_begin[k]);
  const size_t columns = m.loop(a.groups == 1 ? m.out()[1] : Dim(a.groups));
  if (columns == Maker::kNone) return;
  if (a.groups > 1) m.operand(0, 1, columns);
  m.operand(1, 0, columns);
  for (size_t i = 2; i <= last; ++i)
    if (m.has(i) && m.in(i).size() == 1 && m.in(i)[0] == m.in(1)[0]) m.operand(i, 0, columns);
  m.result(1, columns);
  if (a.groups > 1) m.maps.counted.push_back(columns);
  if (a.groups > 1 || !sums) return;
  const size_t terms = m.loop(m.in(0)[1], Loop::Kind::Reduce);
  m.operand(0, 1, terms);
  m.operand(1, 1, terms);
}

// Rows come in groups of `stride`: those of a group are sums over the same rows of the operand.
void transposed_convolution(Maker& m, const ConvAttrs& a) {
  const size_t samples = m.loop(m.in(0)[0]);
  m.operand(0, 0, samples);
  m.result(0, samples);
  for (size_t k = 0; k < a.strides.size(); ++k) {
    const Dim taps = m.in(1)[k + 2], rows = m.out()[k + 2];
    if (!taps.is_static() || !rows.is_static() || !m.in(0)[k + 2].is_static()) continue;
    const int64_t stride = a.strides[k], pad = a.pads_begin[k], reach = (taps.size() - 1) * a.dilations[k];
    const auto floor_div = [&](int64_t x) { return (x - (x % stride + stride) % stride) / stride; };
    const int64_t first = std::min(floor_div(pad - reach + stride - 1), floor_div(pad)), last = floor_div(stride - 1 + pad);
    const size_t l = m.loop(Dim((rows.size() + stride - 1) / stride));
    if (l == Maker::kNone) continue;
    m.window(k + 2, l, 1, -first, last - first + 1);
    m.maps.results[0][k + 2].push_back({l, 1, stride, 0, stride});
  }
  if (a.groups > 1) return;
  const size_t columns = m.loop(m.out()[1]);
  m.operand(1, 1, columns);
  m.operand(2, 0, columns);
  m.result(1, columns);
}

}  // namespace

void conv(Maker& m) { convolution(m, m.attrs<ConvAttrs>(), !m.has(2)); }  // each part of a sum would have the bias

void fused_conv(Maker& m) {
  convolution(m, m.attrs<FusedConvAttrs>().conv, false);
  m.epilogue(3);
}

void q_conv(Maker& m) { convolution(m, m.attrs<ConvAttrs>(), false, kQuantOperands - 1); }

void fused_q_conv(Maker& m) {
  convolution(m, conv_step(m.attrs<FusionAttrs>()), false, kQuantOperands - 1);
  m.epilogue(kQuantOperands);
  for (size_t r = 1; r < m.maps.results.size(); ++r) m.maps.results[r] = m.maps.results[0];
}

void conv_transpose(Maker& m) { transposed_convolution(m, m.attrs<ConvAttrs>()); }

void fused_conv_transpose(Maker& m) {
  transposed_convolution(m, m.attrs<FusedConvAttrs>().conv);
  m.epilogue(3);
}

void pool(Maker& m) {
  const auto& a = m.attrs<PoolAttrs>();
  m.same(axes_from(2, m.in(0).size()));
  for (size_t k = 0; k < a.kernel.size(); ++k)
    window(m, k + 2, (a.kernel[k] - 1) * a.dilations[k] + 1, a.strides[k], a.pads_begin[k]);
}

// Attention and sequences.

namespace {

// Positions of batch, heads, rows in a layout. Packed: heads are the outer part of the last dim.
struct HeadDims {
  size_t batch = 0, heads, rows;
  explicit HeadDims(AttentionLayout l) : heads(l == AttentionLayout::BHSD ? 1 : 2), rows(l == AttentionLayout::BHSD ? 2 : 1) {}
};

}  // namespace

void attention(Maker& m) {
  const auto& a = m.attrs<AttentionAttrs>();
  const HeadDims in(a.layout), out(a.out_layout);
  const bool packed = a.layout == AttentionLayout::Packed;
  const int64_t kv_heads = a.kv_heads();
  const Dim shared = packed ? Dim(kv_heads) : m.in(1)[in.heads];  // whole groups of query heads read a head of keys
  const size_t batch = m.loop(m.in(0)[0]), heads = m.loop(shared);
  // Masks by position need all rows.
  const bool by_row = a.mask == MaskKind::None || a.mask == MaskKind::Custom || a.mask == MaskKind::Bias;
  const size_t rows = by_row ? m.loop(m.in(0)[in.rows]) : Maker::kNone;
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
  if (heads != Maker::kNone) m.maps.counted.push_back(heads);
}

void rope(Maker& m) {
  const auto& a = m.attrs<RopeAttrs>();
  const HeadDims at(a.layout);
  const auto x = m.in(0);
  if (x.size() != (a.layout == AttentionLayout::Packed ? 3U : 4U) || m.has(3)) return;
  // Tables with a batch are read by batch.
  const auto has_batch = [&](size_t i) { return m.in(i).size() > 2 && m.in(i)[0] != Dim(1); };
  if (!has_batch(1) && !has_batch(2)) {
    const size_t batch = m.loop(x[0]);
    m.operand(0, 0, batch);
    m.result(0, batch);
  }
  Dim heads = x[at.heads];
  if (a.layout == AttentionLayout::Packed) heads = heads.is_static() && a.head_dim > 0 ? Dim(heads.size() / a.head_dim) : Dim(1);
  const size_t l = m.loop(heads);
  m.operand(0, at.heads, l);
  m.result(at.heads, l);
}

void selective_scan(Maker& m) {
  if (m.in(0).size() != 3 || m.in(2).size() != 2) return;
  const size_t batch = m.loop(m.in(0)[0]), hidden = m.loop(m.in(0)[2]);
  for (size_t i : {0, 1, 3, 4}) m.operand(i, 0, batch);
  m.result(0, batch);
  m.operand(0, 2, hidden);
  m.operand(1, 2, hidden);
  m.operand(2, 0, hidden);
  m.result(2, hidden);
}

// One scale, or one per index of an axis. Blocks need the whole axis.
void quantize(Maker& m) {
  const auto& a = m.attrs<QuantAttrs>();
  const auto axis = static_cast<size_t>(a.axis);
  const auto per_axis = [&](size_t i) {
    return m.has(i) && m.in(i).size() == 1 && axis < m.in(0).size() && m.in(i)[0] == m.in(0)[axis];
  };
  if (a.block != 0 || (!m.is_one(1) && !per_axis(1))) return;
  m.same({});
  for (const size_t i : {1, 2})
    if (per_axis(i) && !m.maps.operands[0][axis].empty()) m.operand(i, 0, m.maps.operands[0][axis][0].loop);
}

}  // namespace index_rules

IndexMaps index_maps(const Graph& g, NodeId n) {
  using Rule = void (*)(index_rules::Maker&);
  static constexpr Rule kRules[] = {
#define OP(id, text, min_in, max_in, results, attrs, traits, domain, infer, cost, precision, layout, maps, doc) index_rules::maps,
#include "ir/ops.def"
#undef OP
  };
  for (ValueId v : g.operands(n))
    if (v.valid() && g.type(v).kind != TypeKind::Tensor) return {};
  for (size_t r = 0; r < g.result_count(n); ++r)
    if (g.type(g.result(n, r)).kind != TypeKind::Tensor) return {};
  if (g.result_count(n) == 0) return {};
  index_rules::Maker m(g, n);
  kRules[static_cast<size_t>(g.op(n))](m);
  return std::move(m.maps);
}

}  // namespace rlxc
